# SPDX-License-Identifier: Apache-2.0
"""Python processes of their own, for tests of restarts, kills and memory."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")]),
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def run(script, *arguments):
    """Runs a script to its successful end; returns what it printed."""
    return run_python("-c", script, *map(str, arguments))


def run_python(*arguments, python=sys.executable):
    """Runs an interpreter to its successful end; returns what it printed."""
    done = subprocess.run(
        [str(python), *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def free_port():
    """A port of this machine that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
