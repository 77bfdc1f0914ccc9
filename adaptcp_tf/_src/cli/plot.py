# SPDX-License-Identifier: Apache-2.0
"""`adaptcp plot`: a picture of what checkpoints cost over a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_verb, reachable
from adaptcp_tf._src.history import read_history
from adaptcp_tf._src.inspection import open_tiers
from adaptcp_tf._src.storage import files

_TEXT = """Draws what each checkpoint of the run in DIR wrote and cost, also of those that
are deleted meanwhile: bytes by class, hot threshold, stall of training, time
until durable and upload lag, length of the chain.

Takes the history that training keeps in DIR (history/*.jsonl). OUT may be
.png, .svg or .pdf. Needs matplotlib: pip install 'adaptcp-tf[plot]'.

Example:
  adaptcp plot /data/run1 run1.png
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(verbs, "plot", _run, summary="draw what checkpoints cost", text=_TEXT)
    add_directory(parser)
    parser.add_argument("out", metavar="OUT.png", type=reachable, help="picture to write")


def _run(args: argparse.Namespace) -> int:
    directory = open_tiers(args.directory).front.directory
    kind = args.out.rpartition(".")[2].lower()
    if kind not in ("png", "svg", "pdf"):
        raise errors.InvalidOptionError(
            f"Invalid value for OUT. Received: {args.out!r}. Expected: a name that ends in .png, .svg "
            "or .pdf."
        )
    with terminal.progress("drawing"):
        reports = _draw(args, directory, kind)
    if args.json:
        terminal.print_json({"out": args.out, "checkpoints": len(reports)})
    else:
        terminal.say(f"{len(reports)} checkpoints drawn to {args.out}.")
    return 0


def _draw(args: argparse.Namespace, directory: str, kind: str) -> Sequence[dict[str, Any]]:
    """Writes the picture; returns what is in it."""
    reports = read_history(directory)
    if not reports:
        raise errors.CheckpointNotFoundError(
            f"There is no history in {directory!r}. Expected: files history/*.jsonl, which "
            "training writes there. Train into it with this version first."
        )
    try:
        from adaptcp_tf._src.plotting import draw_history
    except ModuleNotFoundError as error:
        raise errors.InvalidOptionError(
            f"Drawing needs matplotlib. Received: {error}. Run: pip install 'adaptcp-tf[plot]'."
        ) from error
    picture = draw_history(reports, title=files.normalize(args.directory), kind=kind)
    files.write_durably(args.out, picture)
    return reports
