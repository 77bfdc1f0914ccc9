# SPDX-License-Identifier: Apache-2.0
"""`adaptcp ls`: the checkpoints of a directory."""

from __future__ import annotations

import argparse
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_verb
from adaptcp_tf._src.inspection import open_tiers
from adaptcp_tf._src.manifest import Manifest

_TEXT = """Lists the checkpoints in DIR, oldest first. Reads their manifests only.

A checkpoint is a base, which holds every row, or a delta, which holds what
changed and builds on the base and the deltas before it.

  written    size of the files that this checkpoint added
  restore    size of all files that restoring it reads
  rows       row copies in them; a row may have several, the newest counts
  since base checkpoints since the base of its chain

Example:
  adaptcp ls /data/run1
"""
_COLUMNS = ("step", "kind", "taken (UTC)", "written", "restore", "rows", "since base")


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(verbs, "ls", _run, summary="list checkpoints", text=_TEXT)
    add_directory(parser)


def _run(args: argparse.Namespace) -> int:
    store = open_tiers(args.directory).front
    checkpoints: list[dict[str, Any]] = []
    unreadable: list[str] = []
    with terminal.progress("reading", of="manifests") as watch:
        steps = store.all_steps()
        for number, step in enumerate(steps, start=1):
            try:
                checkpoints.append(summary(store.read(step)))
            except errors.CheckpointNotFoundError:
                pass  # deleted meanwhile
            except errors.CorruptCheckpointError as error:
                unreadable.append(str(error))
            watch(number, len(steps))
    if args.json:
        terminal.print_json(
            {"directory": store.directory, "checkpoints": checkpoints, "unreadable": unreadable}
        )
    else:
        _print(store.directory, checkpoints, unreadable)
    return 1 if unreadable else 0


def summary(manifest: Manifest) -> dict[str, Any]:
    """What the list says of a checkpoint."""
    return {
        "step": manifest.step,
        "kind": manifest.kind,
        "wall_time": manifest.wall_time,
        "bytes_written": sum(manifest.new_files().values()),
        "bytes_restore": manifest.totals["bytes"],
        "rows": manifest.totals["rows"],
        "segments": manifest.totals["segments"],
        "since_base": manifest.interval - manifest.base_interval,
        "exact": manifest.exact,
    }


def _print(directory: str, checkpoints: list[dict[str, Any]], unreadable: list[str]) -> None:
    if not checkpoints and not unreadable:
        terminal.say(f"There are no checkpoints in {directory}.")
    if checkpoints:
        rows = [
            (
                str(one["step"]),
                one["kind"] if one["exact"] else f"{one['kind']}, quantised",
                terminal.moment(one["wall_time"]),
                terminal.size(one["bytes_written"]),
                terminal.size(one["bytes_restore"]),
                terminal.number(one["rows"]),
                str(one["since_base"]),
            )
            for one in checkpoints
        ]
        terminal.print_table(_COLUMNS, rows, left=3)
    for message in unreadable:
        terminal.say(message, style="red")
