# SPDX-License-Identifier: Apache-2.0
"""`adaptcp gc`: deletes old checkpoints, and files that belong to none."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_verb
from adaptcp_tf._src.maintenance import GarbageReport, collect_garbage

_TEXT = """Keeps the newest K checkpoints in DIR and deletes the others, with every file
that none of the kept ones needs, such as what a killed trainer left behind.
Foreign files are never touched.

Training does the same by itself (max_to_keep); this is for directories that
nobody trains into. While a trainer is alive DIR is locked, and the command
refuses.

Examples:
  adaptcp gc /data/run1 --keep 3 --dry-run
  adaptcp gc /data/run1 --keep 3
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(
        verbs, "gc", _run, summary="delete old checkpoints and left-overs", text=_TEXT
    )
    add_directory(parser)
    parser.add_argument(
        "--keep", type=int, required=True, metavar="K", help="so many of the newest stay"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def _run(args: argparse.Namespace) -> int:
    what = "looking" if args.dry_run else "deleting"
    with terminal.progress(what, of="files") as watch:
        report = collect_garbage(args.directory, args.keep, dry_run=args.dry_run, watch=watch)
    if args.json:
        terminal.print_json({"dry_run": args.dry_run, **dataclasses.asdict(report)})
    else:
        _print(report, args.dry_run)
    return 1 if report.unreadable else 0


def _print(report: GarbageReport, dry_run: bool) -> None:
    verb = "Would delete" if dry_run else "Deleted"
    steps = ", ".join(map(str, report.deleted_steps)) or "none"
    kept = ", ".join(map(str, report.kept_steps)) or "none"
    terminal.say(f"{verb} checkpoints: {steps}. Kept: {kept}.")
    terminal.say(f"{verb} {report.files} files, {terminal.size(report.bytes)}.")
    for message in report.unreadable:
        terminal.say(message, style="red")
    if report.unreadable:
        terminal.say("No file is deleted while a manifest cannot be read. Move it away.")
