# SPDX-License-Identifier: Apache-2.0
"""The command `adaptcp`, also `python -m adaptcp_tf.cli`."""

import os
import sys

from adaptcp_tf._src.cli import main

__all__ = ["main", "run"]


def run() -> None:
    """Runs the command and ends the process with its exit status."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if "tensorflow_io" in sys.modules:
        # Its S3 file system may abort in the interpreter's own end, and hide the status.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    run()
