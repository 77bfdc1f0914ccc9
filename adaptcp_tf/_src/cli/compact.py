# SPDX-License-Identifier: Apache-2.0
"""`adaptcp compact`: one base in place of the newest checkpoint's chain."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_verb
from adaptcp_tf._src.maintenance import compact

_TEXT = """Merges the base of the newest checkpoint in DIR and all that builds on it into
one new base. Restores the same rows, slots and update rates, from fewer files
and bytes.

Reads and writes storage only, without the model; runs on any machine. While a
trainer is alive DIR is locked, and the command refuses; a trainer started
later goes on from the new base. When it is killed, the checkpoint is as it
was. The old files stay as long as older checkpoints are kept: `adaptcp gc`
deletes them, or the next trainer does. Do not run `gc` after it while a buffer
elsewhere holds checkpoints that are not uploaded: they may need the old files.

Examples:
  adaptcp compact /data/run1
  adaptcp compact s3://bucket/run1 --threads 16
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(
        verbs, "compact", _run, summary="one base in place of a long chain", text=_TEXT
    )
    add_directory(parser)
    parser.add_argument(
        "--threads", type=int, default=4, metavar="N", help="that read and write (default: 4)"
    )


def _run(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    with terminal.progress("compacting") as watch:
        report = compact(args.directory, num_threads=max(1, args.threads), watch=watch)
    seconds = time.perf_counter() - start
    if args.json:
        terminal.print_json({**dataclasses.asdict(report), "seconds": seconds})
    elif not report.compacted:
        terminal.say(f"Step {report.step} is a base already: nothing to do.")
    else:
        terminal.say(
            f"Step {report.step} is a base of {terminal.number(report.rows)} rows now "
            f"({terminal.number(report.stale_rows)} stale copies left out, {seconds:.1f} s)."
        )
        terminal.say(
            f"A restore reads {report.segments_after} files of rows instead of "
            f"{report.segments_before}, {terminal.size(report.bytes_after)} instead of "
            f"{terminal.size(report.bytes_before)}."
        )
    return 0
