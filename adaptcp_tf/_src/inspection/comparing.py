# SPDX-License-Identifier: Apache-2.0
"""Finds out how the rows of two checkpoints differ, from their key records alone."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import GroupSpec, Manifest, Segment, Tiers, restore_order
from adaptcp_tf._src.manifest.types import DIFFERENTIAL
from adaptcp_tf._src.ops.inspect import SegmentKeys, read_segment_keys
from adaptcp_tf._src.storage.failures import op_message, translated


@dataclasses.dataclass(frozen=True)
class GroupChange:
    """How a table group changed.

    Attributes:
        name: of the group.
        rows_before, rows_after: rows in the earlier and the later checkpoint.
        added: rows that are in the later one only.
        changed: rows in both that were updated in between; they may hold the same values.
        removed: rows that are in the earlier one only.
        row_bytes: of one row, parameter and slots.
        bytes_written: size of the segments that the later checkpoint reads and the earlier does not.
    """

    name: str
    rows_before: int
    rows_after: int
    added: int
    changed: int
    removed: int
    row_bytes: int
    bytes_written: int

    @property
    def bytes_changed(self) -> int:
        """Size of the values of rows that were added or changed."""
        return (self.added + self.changed) * self.row_bytes


# The rows of a group in a checkpoint: keys, rising, and the interval of the last update of each.
_Rows = tuple[np.ndarray, np.ndarray]


def compare(
    tiers: Tiers,
    earlier: int,
    later: int,
    *,
    num_threads: int = 4,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[GroupChange, ...]:
    """Counts the rows that were added, changed and removed from one checkpoint to a later one.

    Reads key records only, and takes memory for the keys of one group in both checkpoints.

    Example:
        >>> compare(Tiers("/data/run1"), 1000, 1200)[0].changed
        3500

    Args:
        tiers: where they are.
        earlier: step of one.
        later: step of the other.
        num_threads: files that are read at once.
        watch: called now and then with the bytes of the files looked at so far, and of all of them.

    Returns:
        One entry a table group of either checkpoint.

    Raises:
        CheckpointNotFoundError: one does not exist.
        CorruptCheckpointError: a file is missing or damaged.
        InvalidOptionError: the steps do not rise, or a group has other keys in the other checkpoint.
        StorageError: a file could not be read.
    """
    if not earlier < later:
        raise errors.InvalidOptionError(
            f"Invalid value for the steps. Received: {earlier} and {later}. Expected: the earlier one "
            "first."
        )
    before, after = tiers.front.read(earlier), tiers.front.read(later)
    paths = {**tiers.locate(before), **tiers.locate(after)}
    segments = {s.path: s for s in (*before.segments, *after.segments)}
    progress = _Progress(sum(s.bytes for s in segments.values()), watch)
    specs = {spec.name: spec for manifest in (before, after) for spec in manifest.groups}
    _check_keys(before, after)
    changes = []
    with concurrent.futures.ThreadPoolExecutor(num_threads, "adaptcp-diff") as executor:
        for name, spec in specs.items():
            mine = [s for s in segments.values() if s.group == name]
            dtype = tf.as_dtype(spec.key_dtype)
            read = dict(
                zip(
                    (s.path for s in mine),
                    executor.map(lambda s, d=dtype: progress.add(s, _read(paths[s.path], d)), mine),
                )
            )
            old, new = (
                _rows([read[s.path] for s in restore_order(manifest).get(name, [])])
                for manifest in (before, after)
            )
            changes.append(_change(spec, old, new, _common_interval(before, after), before, after))
    return tuple(changes)


class _Progress:
    def __init__(self, total: int, watch: Callable[[int, int], None]):
        self._done, self._total, self._watch = 0, total, watch

    def add(self, segment: Segment, keys: SegmentKeys) -> SegmentKeys:
        self._done += segment.bytes
        self._watch(self._done, self._total)
        return keys


def _check_keys(before: Manifest, after: Manifest) -> None:
    dtypes = {spec.name: spec.key_dtype for spec in before.groups}
    for spec in after.groups:
        if dtypes.get(spec.name, spec.key_dtype) != spec.key_dtype:
            raise errors.InvalidOptionError(
                f"TFRA variable {spec.name!r} cannot be compared. Received: {dtypes[spec.name]} keys "
                f"in step {before.step}, {spec.key_dtype} in step {after.step}. Expected: the same."
            )


def _read(path: str, key_dtype: tf.DType) -> SegmentKeys:
    try:
        with translated("read", path):
            return read_segment_keys(path, key_dtype)
    except errors.StorageError as error:
        if not isinstance(error.__cause__, tf.errors.DataLossError):
            raise
        raise errors.CorruptCheckpointError(
            f"A segment is damaged. {op_message(error.__cause__)}", path=path
        ) from error


def _rows(newest_first: Sequence[SegmentKeys]) -> _Rows:
    """The rows that a restore of segments gives."""
    if not newest_first:
        return np.array([], np.int64), np.array([], np.int64)
    keys = np.concatenate([segment.keys for segment in newest_first])
    last_updated = np.concatenate([segment.last_updated for segment in newest_first])
    tombstones = np.concatenate([segment.tombstones for segment in newest_first])
    # The first of equal keys is the newest.
    unique, first = np.unique(keys, return_index=True)
    live = ~tombstones[first]
    return unique[live], last_updated[first][live]


def _common_interval(before: Manifest, after: Manifest) -> int:
    """Up to this interval both checkpoints have the same past; -1 if that is not known."""
    if after.base_interval >= before.interval:
        return before.interval  # a later base of the same training
    lasting = [s for s in before.segments if s.kind != DIFFERENTIAL]
    later_paths = {s.path for s in after.segments}
    if all(s.path in later_paths for s in lasting):
        return before.interval
    return max((s.interval for s in lasting if s.path in later_paths), default=-1)


def _change(
    spec: GroupSpec, old: _Rows, new: _Rows, common: int, before: Manifest, after: Manifest
) -> GroupChange:
    _, in_old, in_new = np.intersect1d(old[0], new[0], assume_unique=True, return_indices=True)
    updated = (old[1][in_old] != new[1][in_new]) | (new[1][in_new] > common)
    known = {s.path for s in before.segments}
    return GroupChange(
        name=spec.name,
        rows_before=len(old[0]),
        rows_after=len(new[0]),
        added=len(new[0]) - len(in_new),
        changed=int(np.count_nonzero(updated)),
        removed=len(old[0]) - len(in_old),
        row_bytes=sum(table.dim * tf.as_dtype(table.dtype).size for table in spec.tables),
        bytes_written=sum(
            s.bytes for s in after.segments if s.group == spec.name and s.path not in known
        ),
    )
