# SPDX-License-Identifier: Apache-2.0
"""Arguments that verbs have in common."""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from adaptcp_tf._src.storage import files


def add_verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], int], *, summary: str, text: str
) -> argparse.ArgumentParser:
    """Adds a verb that takes --json to the command line.

    Args:
        verbs: what `add_subparsers` returned.
        name: of the verb.
        run: returns the exit status.
        summary: one line for the list of verbs.
        text: what `--help` says, as it stands; ends with examples.
    """
    parser = verbs.add_parser(
        name,
        help=summary,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    return parser


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Adds DIR."""
    parser.add_argument(
        "directory",
        metavar="DIR",
        type=reachable,
        help="where the checkpoints are: a path, or a URI such as s3://bucket/run1",
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    """Adds DIR, OUT and --step."""
    add_directory(parser)
    parser.add_argument("out", metavar="OUT", type=reachable, help="directory to make")
    add_step(parser, "the newest")


def add_step(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds --step."""
    parser.add_argument(
        "--step", type=int, metavar="S", help=f"which checkpoint (default: {default})"
    )


def reachable(path: str) -> str:
    """Has TensorFlow learn of the file systems of tensorflow-io, if the path needs one.

    Args:
        path: a path or URI.

    Returns:
        The path.
    """
    if path and not files.is_local(path):
        # Without it, whoever opens the path says what to install.
        with contextlib.suppress(ImportError):
            importlib.import_module("tensorflow_io")
    return path
