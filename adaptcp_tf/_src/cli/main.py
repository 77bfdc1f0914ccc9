# SPDX-License-Identifier: Apache-2.0
"""Reads the command line and runs a verb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from adaptcp_tf import errors
from adaptcp_tf._src.cli import export, simulate

_PROBLEM_FOUND = 1
_WRONG_USE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `adaptcp`.

    Args:
        arguments: those after the program's name; None takes the process's own.

    Returns:
        The exit status: 0 good, 1 a problem was found, 2 wrong use.
    """
    parser = argparse.ArgumentParser(
        prog="adaptcp", description="Checkpoints of TFRA tables: look, plan, compare."
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in (export, simulate):
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
