# SPDX-License-Identifier: Apache-2.0
"""`adaptcp show`: what one checkpoint holds."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_step, add_verb
from adaptcp_tf._src.history import report_of
from adaptcp_tf._src.inspection import open_tiers, step_to_read
from adaptcp_tf._src.manifest import Manifest, encode_manifest

_TEXT = """Shows what a checkpoint holds: variables, files of its chain, position in the
input, versions.

With --json it prints the manifest itself.

Example:
  adaptcp show /data/run1 --step 1200
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(verbs, "show", _run, summary="what one checkpoint holds", text=_TEXT)
    add_directory(parser)
    add_step(parser, "the newest")


def _run(args: argparse.Namespace) -> int:
    report = None
    with terminal.progress("reading"):
        store = open_tiers(args.directory).front
        manifest = store.read(step_to_read(store, args.step))
        if not args.json:
            report = report_of(store.directory, manifest.step)
    if args.json:
        terminal.print_json(json.loads(encode_manifest(manifest)))
        return 0
    terminal.print_facts([*_facts(manifest), *_cost(report)])
    _print_groups(manifest)
    _print_chain(manifest)
    return 0


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    totals = manifest.totals
    since = manifest.interval - manifest.base_interval
    chain = "" if manifest.kind == "base" else f", {since} after its base"
    facts = [
        ("step", f"{manifest.step}, {manifest.kind}{chain}"),
        ("taken", f"{terminal.moment(manifest.wall_time)} UTC"),
        ("written", terminal.size(sum(manifest.new_files().values()))),
        (
            "restore",
            f"{terminal.size(totals['bytes'])} in {len(manifest.files())} files: "
            f"{terminal.number(totals['rows'])} row copies, "
            f"{terminal.number(totals['tombstones'])} removed keys",
        ),
        (
            "stored as",
            "every bit" if manifest.exact else f"quantised: {', '.join(manifest.encodings)}",
        ),
    ]
    if manifest.position is not None:
        where = manifest.position
        facts.append(
            (
                "position",
                f"epoch {where.epoch}, batch {where.batch} "
                f"({terminal.number(where.batches_total)} batches in all)",
            )
        )
    if manifest.dense is not None:
        dense = manifest.dense
        size = terminal.size(sum(dense.files.values()))
        facts.append(("dense", f"{len(dense.variables)} variables, {size}"))
    facts += _policy_facts(manifest.policy)
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    return [*facts, ("versions", versions or "unknown")]


def _cost(report: dict[str, Any] | None) -> list[tuple[str, str]]:
    if report is None:
        return []
    durable = f"after {report['seconds_to_durable']:.2f} s"
    uploaded = report.get("seconds_to_uploaded")
    if uploaded is not None and uploaded > report["seconds_to_durable"]:
        durable += f" in the buffer, {uploaded:.2f} s in the directory"
    return [("stall", f"{report['stall_ms']:.2f} ms"), ("durable", durable)]


def _policy_facts(policy: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("strategy", str(policy.get("strategy", "unknown")))]
    if isinstance(policy.get("hot_threshold"), (int, float)):
        facts.append(("threshold", threshold(policy["hot_threshold"])))
    solution = policy.get("solution")
    if isinstance(solution, dict):
        facts.append(
            ("solved", f"rho {solution.get('rho')}, base every {solution.get('base_period')}")
        )
        facts.append(("", str(solution.get("reason", ""))))
    return facts


def threshold(value: float) -> str:
    """Returns the hot threshold for people."""
    if value > 1:
        return "none: all rows are cold"
    return f"rows are hot from {value:.3g} updates per interval"


def _print_groups(manifest: Manifest) -> None:
    rows = []
    for group in manifest.groups:
        segments = [s for s in manifest.segments if s.group == group.name]
        tables = Counter(f"{table.dtype} x {table.dim}" for table in group.tables)
        rows.append(
            (
                group.name,
                f"{group.key_dtype} to "
                + ", ".join(f"{n} x {kind}" if n > 1 else kind for kind, n in tables.items()),
                str(group.num_shards),
                terminal.number(sum(s.rows for s in segments)),
                terminal.size(sum(s.bytes for s in segments)),
            )
        )
    if rows:
        columns = ("variable", "keys and tables", "shards", "row copies", "size")
        terminal.print_table(columns, rows, left=2)


def _print_chain(manifest: Manifest) -> None:
    cuts: dict[tuple[int, str], list[Any]] = {}
    for segment in manifest.segments:
        cuts.setdefault((segment.interval, segment.kind), []).append(segment)
    rows = [
        (
            kind,
            str(interval),
            str(len(segments)),
            terminal.number(sum(s.rows for s in segments)),
            terminal.number(sum(s.tombstones for s in segments)),
            terminal.size(sum(s.bytes for s in segments)),
        )
        for (interval, kind), segments in sorted(
            cuts.items(), key=lambda item: (item[0][1] == "differential", item[0])
        )
    ]
    if rows:
        columns = ("chain", "interval", "files", "rows", "removed", "size")
        terminal.print_table(columns, rows)
