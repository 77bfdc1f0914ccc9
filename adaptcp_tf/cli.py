# SPDX-License-Identifier: Apache-2.0
"""The command `adaptcp`, also `python -m adaptcp_tf.cli`."""

import sys

from adaptcp_tf._src.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
