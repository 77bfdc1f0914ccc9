# SPDX-License-Identifier: Apache-2.0
"""What must hold between the fields of a manifest, whoever wrote it."""

from __future__ import annotations

from adaptcp_tf._src.manifest import names
from adaptcp_tf._src.manifest.chain import part_of
from adaptcp_tf._src.manifest.faults import corrupt
from adaptcp_tf._src.manifest.types import (
    BASE,
    DELTA,
    DIFFERENTIAL,
    ENCODINGS,
    INCREMENT,
    GroupSpec,
    Manifest,
    Segment,
)

_MAX_CRC = 2**32 - 1


def check_manifest(manifest: Manifest, path: str) -> None:
    """Verifies that the parts of a manifest agree with each other.

    Above all the chain: per group and shard at most one base, of the base interval; increments in
    strictly rising order, after the base and not after the checkpoint; at most one differential,
    of the checkpoint's own interval. Each may be in several parts, in rising order.

    Example:
        >>> check_manifest(manifest, "manifest-0000000000001200.json")

    Args:
        manifest: the manifest; its fields have the right types.
        path: its file, for the message.

    Raises:
        CorruptCheckpointError: naming the first field that is wrong.
    """
    _check_intervals(manifest, path)
    groups = _check_groups(manifest, path)
    paths: dict[str, int] = {}
    chains: dict[tuple[str, int], list[tuple[int, Segment]]] = {}
    for index, segment in enumerate(manifest.segments):
        _check_segment(segment, f"segments[{index}]", groups, path)
        first = paths.setdefault(segment.path, index)
        if first != index:
            raise corrupt(
                path,
                f"segments[{index}].path",
                f"a path other than that of segments[{first}]",
                segment.path,
            )
        chains.setdefault((segment.group, segment.shard), []).append((index, segment))
    for chain in chains.values():
        _check_chain(manifest, chain, path)
    _check_dense(manifest, path)


def _check_intervals(manifest: Manifest, path: str) -> None:
    if manifest.kind not in (BASE, DELTA):
        raise corrupt(path, "kind", f"{BASE!r} or {DELTA!r}", manifest.kind)
    if not 0 <= manifest.step <= names.MAX_STEP:
        raise corrupt(path, "step", f"an integer from 0 to {names.MAX_STEP}", manifest.step)
    if manifest.base_interval < 0:
        raise corrupt(path, "base_interval", "an integer of 0 or more", manifest.base_interval)
    for name, value in vars(manifest.position).items() if manifest.position else ():
        if value < 0:
            raise corrupt(path, f"position.{name}", "an integer of 0 or more", value)
    if manifest.kind == BASE and manifest.interval != manifest.base_interval:
        expected = f"{manifest.base_interval}, the base interval, in a base"
        raise corrupt(path, "interval", expected, manifest.interval)
    if manifest.kind == DELTA and manifest.interval <= manifest.base_interval:
        expected = f"more than {manifest.base_interval}, the base interval, in a delta"
        raise corrupt(path, "interval", expected, manifest.interval)


def _check_groups(manifest: Manifest, path: str) -> dict[str, GroupSpec]:
    groups: dict[str, GroupSpec] = {}
    for index, group in enumerate(manifest.groups):
        field = f"groups[{index}]"
        if group.name in groups:
            raise corrupt(path, f"{field}.name", "a name no other group has", group.name)
        if group.num_shards < 1:
            raise corrupt(path, f"{field}.num_shards", "an integer of 1 or more", group.num_shards)
        if not group.tables:
            raise corrupt(path, f"{field}.tables", "at least one table", [])
        tables = set()
        for position, table in enumerate(group.tables):
            where = f"{field}.tables[{position}]"
            if table.name in tables:
                raise corrupt(path, f"{where}.name", "a name no other table has", table.name)
            if table.dim < 1:
                raise corrupt(path, f"{where}.dim", "an integer of 1 or more", table.dim)
            tables.add(table.name)
        groups[group.name] = group
    return groups


def _check_segment(segment: Segment, field: str, groups: dict[str, GroupSpec], path: str) -> None:
    for name in ("bytes", "rows", "tombstones"):
        if getattr(segment, name) < 0:
            raise corrupt(
                path, f"{field}.{name}", "an integer of 0 or more", getattr(segment, name)
            )
    if not 0 <= segment.footer_crc <= _MAX_CRC:
        raise corrupt(path, f"{field}.footer_crc", "an unsigned 32-bit integer", segment.footer_crc)
    for name in ("encoding", "slot_encoding"):
        if getattr(segment, name) not in ENCODINGS:
            expected = f"one of {', '.join(ENCODINGS)}"
            raise corrupt(path, f"{field}.{name}", expected, getattr(segment, name))
    if segment.group not in groups:
        raise corrupt(path, f"{field}.group", f"one of {sorted(groups)}", segment.group)
    num_shards = groups[segment.group].num_shards
    if not 0 <= segment.shard < num_shards:
        raise corrupt(
            path, f"{field}.shard", f"an integer from 0 to {num_shards - 1}", segment.shard
        )
    described = names.describe_segment_path(segment.path)
    if described is None:
        expected = "segments/<step>-<nonce>/g<index>-s<shard>of<shards>-<kind>[-p<part>].acp"
        raise corrupt(path, f"{field}.path", expected, segment.path)
    recorded = described._replace(shard=segment.shard, num_shards=num_shards, kind=segment.kind)
    if described != recorded:
        expected = f"the path of a file with {recorded._asdict()}"
        raise corrupt(path, f"{field}.path", expected, segment.path)


def _check_chain(manifest: Manifest, chain: list[tuple[int, Segment]], path: str) -> None:
    """Verifies the segments of one group and shard, in the order the manifest names them."""
    newest = -1  # Interval of the segment before, or -1 in front of the base.
    ended = False
    before: Segment | None = None
    for index, segment in chain:
        if before is not None and _is_next_part(segment, before):
            before = segment
            continue
        before = segment
        where = f"segments[{index}].interval"
        owner = f"for group {segment.group!r}, shard {segment.shard}"
        if ended:
            raise corrupt(path, where, f"nothing after the differential {owner}", segment.interval)
        if manifest.kind == BASE and segment.kind != BASE:
            raise corrupt(path, f"segments[{index}].kind", "'base' in a base", segment.kind)
        if segment.kind == BASE:
            if newest >= 0:
                expected = f"one base {owner}, in front of its increments"
                raise corrupt(path, where, expected, segment.interval)
            if segment.interval != manifest.base_interval:
                expected = f"{manifest.base_interval}, the base interval"
                raise corrupt(path, where, expected, segment.interval)
        elif segment.kind == INCREMENT:
            least = max(newest, manifest.base_interval) + 1
            if not least <= segment.interval <= manifest.interval:
                expected = (
                    f"an interval from {least} to {manifest.interval} {owner}, since increments "
                    "come in rising order, after the base and not after the checkpoint"
                )
                raise corrupt(path, where, expected, segment.interval)
        elif segment.kind == DIFFERENTIAL:
            if segment.interval != manifest.interval:
                expected = f"{manifest.interval}, the interval of the checkpoint, {owner}"
                raise corrupt(path, where, expected, segment.interval)
            ended = True
        newest = segment.interval


def _is_next_part(segment: Segment, before: Segment) -> bool:
    """Whether both are of one cut and kind, written by one attempt, and in order."""

    def cut(one: Segment) -> tuple[str, int, str]:
        return one.kind, one.interval, one.path.rsplit("/", 1)[0]

    return cut(segment) == cut(before) and part_of(segment) > part_of(before)


def _check_dense(manifest: Manifest, path: str) -> None:
    dense = manifest.dense
    if dense is None:
        return
    if not names.is_dense_prefix(dense.prefix):
        raise corrupt(path, "dense.prefix", "segments/<step>-<nonce>/dense", dense.prefix)
    for name, size in dense.files.items():
        if not names.is_dense_file(name):
            raise corrupt(path, "dense.files", "names of a tensor bundle's files", name)
        if size < 0:
            raise corrupt(path, f"dense.files[{name!r}]", "an integer of 0 or more", size)
    if f"{names.DENSE_NAME}.index" not in dense.files:
        expected = f"{names.DENSE_NAME}.index among them"
        raise corrupt(path, "dense.files", expected, sorted(dense.files))
    keys = set()
    for index, variable in enumerate(dense.variables):
        if variable.key in keys:
            field = f"dense.variables[{index}].key"
            raise corrupt(path, field, "a key no other variable has", variable.key)
        keys.add(variable.key)
