# SPDX-License-Identifier: Apache-2.0
"""Chains: which segments make up a checkpoint, and in which order they are read."""

from __future__ import annotations

from collections.abc import Iterable

from adaptcp_tf import errors
from adaptcp_tf._src.manifest.names import describe_segment_path
from adaptcp_tf._src.manifest.types import (
    BASE,
    DELTA,
    DIFFERENTIAL,
    INCREMENT,
    Manifest,
    Segment,
)

_RANK = {BASE: 0, INCREMENT: 1, DIFFERENTIAL: 2}
_KINDS_OF_CUT = {BASE: (BASE,), DELTA: (INCREMENT, DIFFERENTIAL)}


def restore_order(manifest: Manifest) -> dict[str, list[Segment]]:
    """Orders the segments of a checkpoint as a restore reads them.

    Example:
        >>> restore_order(manifest)["emb"][-1].kind
        'base'

    Args:
        manifest: the checkpoint.

    Returns:
        group -> the segments of all its shards, newest first: the differentials, the increments by
        falling interval, the bases. A group without segments holds no rows and has an empty list.
    """
    order: dict[str, list[Segment]] = {group.name: [] for group in manifest.groups}
    for segment in sorted(manifest.segments, key=_age, reverse=True):
        order[segment.group].append(segment)
    return order


def extend_chain(
    previous: Manifest | None, new_segments: Iterable[Segment], *, kind: str, interval: int
) -> tuple[Segment, ...]:
    """Lists the segments of a new checkpoint, from the previous one and what the cut wrote.

    A base starts a new chain. A delta keeps base and increments of the previous checkpoint and
    replaces its differentials: a group and shard that wrote none in this cut has no hot rows
    that changed since the base, so its old differential goes too.

    Example:
        >>> [s.kind for s in extend_chain(manifest, [], kind="delta", interval=5)]
        ['base', 'increment']

    Args:
        previous: the checkpoint before this one; only a base may do without.
        new_segments: the segments of this cut, in any order.
        kind: "base" or "delta".
        interval: the interval of this cut.

    Returns:
        All segments the new manifest names, in the order it names them.

    Raises:
        InvalidOptionError: if the new segments do not belong to such a cut, or repeat each other,
            or a delta has no earlier checkpoint to build on.
    """
    new = list(new_segments)
    _check_new_segments(new, kind, interval)
    if kind == BASE:
        return _in_manifest_order(new)
    if previous is None or previous.interval >= interval:
        before = "none" if previous is None else f"one of interval {previous.interval}"
        raise errors.InvalidOptionError(
            f"Invalid value for previous. Received: {before}. Expected: the checkpoint that the "
            f"delta of interval {interval} builds on, of a smaller interval. Take a base first."
        )
    kept = [segment for segment in previous.segments if segment.kind != DIFFERENTIAL]
    return _in_manifest_order(kept + new)


def _check_new_segments(new: list[Segment], kind: str, interval: int) -> None:
    if kind not in _KINDS_OF_CUT:
        raise errors.InvalidOptionError(
            f"Invalid value for kind. Received: {kind!r}. Expected: {BASE!r} or {DELTA!r}."
        )
    seen: set[tuple[str, int, str, int]] = set()
    for segment in new:
        identity = (segment.group, segment.shard, segment.kind, part_of(segment))
        if segment.kind not in _KINDS_OF_CUT[kind] or segment.interval != interval:
            raise errors.InvalidOptionError(
                f"Invalid value for new_segments: {segment.path!r} does not belong to this cut. "
                f"Received: kind {segment.kind!r} of interval {segment.interval}. Expected: one "
                f"of {_KINDS_OF_CUT[kind]} of interval {interval}."
            )
        if identity in seen:
            raise errors.InvalidOptionError(
                f"Invalid value for new_segments: {segment.path!r} is the second part "
                f"{part_of(segment)} of the {segment.kind} of group {segment.group!r}, shard "
                f"{segment.shard}. Expected: at most one."
            )
        seen.add(identity)


def _in_manifest_order(segments: list[Segment]) -> tuple[Segment, ...]:
    return tuple(sorted(segments, key=lambda s: (s.group, s.shard, _age(s), part_of(s))))


def part_of(segment: Segment) -> int:
    """Returns which of the files of one cut, group, shard and kind a segment is, from 0."""
    described = describe_segment_path(segment.path)
    return 0 if described is None else described.part


def _age(segment: Segment) -> tuple[int, int]:
    return _RANK[segment.kind], segment.interval
