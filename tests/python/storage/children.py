# SPDX-License-Identifier: Apache-2.0
"""Starts Python processes that can be killed, for tests of locks and commits."""

import os
import subprocess
import sys

import adaptcp_tf

# Only files are touched there, so the seconds of importing TensorFlow with the package are saved.
_BARE_PACKAGE = f"""
import sys, types
package = types.ModuleType("adaptcp_tf")
package.__path__ = {list(adaptcp_tf.__path__)!r}
sys.modules["adaptcp_tf"] = package
"""


def start(script, *arguments):
    """Starts a script in a process and session of its own, with pipes to talk to it."""
    return subprocess.Popen(
        [sys.executable, "-c", _BARE_PACKAGE + script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(script, *arguments):
    """Runs a script to its end and returns its exit status, negative if a signal ended it."""
    process = start(script, *arguments)
    process.communicate()
    return process.returncode
