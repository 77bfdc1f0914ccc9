# SPDX-License-Identifier: Apache-2.0
"""`adaptcp diff`: which rows changed between two checkpoints."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_verb
from adaptcp_tf._src.inspection import GroupChange, compare, open_tiers

_TEXT = """Counts the rows that were added, changed and removed from checkpoint A to the
later checkpoint B, for each TFRA variable. Reads the key records of both, none
of the values.

  changed    rows of both that training updated in between
  new data   size of added and changed rows: parameter and optimizer slots
  new files  size of the files of rows that B needs and A does not

Example:
  adaptcp diff /data/run1 1000 1200
"""
_COLUMNS = ("variable", "rows in B", "added", "changed", "removed", "new data", "new files")


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(verbs, "diff", _run, summary="rows that changed in between", text=_TEXT)
    add_directory(parser)
    parser.add_argument("earlier", metavar="A", type=int, help="step of the earlier checkpoint")
    parser.add_argument("later", metavar="B", type=int, help="step of the later checkpoint")


def _run(args: argparse.Namespace) -> int:
    tiers = open_tiers(args.directory)
    with terminal.progress("comparing") as watch:
        changes = compare(tiers, args.earlier, args.later, watch=watch)
    if args.json:
        groups = [
            {**dataclasses.asdict(one), "bytes_changed": one.bytes_changed} for one in changes
        ]
        terminal.print_json({"from_step": args.earlier, "to_step": args.later, "groups": groups})
    else:
        _print(changes)
    return 0


def _print(changes: tuple[GroupChange, ...]) -> None:
    rows = [
        (
            one.name,
            terminal.number(one.rows_after),
            terminal.number(one.added),
            terminal.number(one.changed),
            terminal.number(one.removed),
            terminal.size(one.bytes_changed),
            terminal.size(one.bytes_written),
        )
        for one in changes
    ]
    if rows:
        terminal.print_table(_COLUMNS, rows)
    else:
        terminal.say("Neither checkpoint has TFRA variables.")
