# SPDX-License-Identifier: Apache-2.0
"""Reads the command line and runs a verb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from adaptcp_tf import errors
from adaptcp_tf._src.cli import (
    compact,
    diff,
    export,
    export_savedmodel,
    gc,
    ls,
    plot,
    show,
    simulate,
    verify,
)

_PROBLEM_FOUND = 1
_WRONG_USE = 2
_INTERRUPTED = 130  # what shells expect of SIGINT

_VERBS = (ls, show, verify, diff, gc, compact, export, export_savedmodel, plot, simulate)

_TEXT = """Looks at, checks, tidies up, converts and compares checkpoints of TFRA tables.

Needs neither the model nor its code. DIR is where training saves: a path, a
URI such as s3://bucket/run1, or the local buffer of a run.
"""

_MORE = """`adaptcp VERB --help` explains a verb. Exit status: 0 good, 1 a problem was
found, 2 wrong use.

Start with:
  adaptcp ls DIR        which checkpoints there are
  adaptcp verify DIR    whether they are good
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `adaptcp`.

    Args:
        arguments: those after the program's name; None takes the process's own.

    Returns:
        The exit status: 0 good, 1 a problem was found, 2 wrong use.
    """
    parser = argparse.ArgumentParser(
        prog="adaptcp",
        description=_TEXT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in _VERBS:
        verb.add_parser(verbs)
    args = parser.parse_args(arguments)
    try:
        return args.run(args)
    except (errors.InvalidOptionError, FileNotFoundError) as error:
        print(f"adaptcp {args.verb}: {error}", file=sys.stderr)
        return _WRONG_USE
    except errors.AdaptCPError as error:
        print(f"adaptcp {args.verb}: {error}", file=sys.stderr)
        return _PROBLEM_FOUND
    except KeyboardInterrupt:
        print(f"adaptcp {args.verb}: interrupted", file=sys.stderr)
        return _INTERRUPTED
