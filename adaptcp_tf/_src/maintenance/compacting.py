# SPDX-License-Identifier: Apache-2.0
"""Makes a base out of the newest checkpoint's chain, reading and writing storage only."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.maintenance.opening import store_to_change
from adaptcp_tf._src.manifest import (
    CheckpointStore,
    GroupSpec,
    Manifest,
    Segment,
    discard_attempt,
    extend_chain,
    restore_order,
    segment_prefix,
)
from adaptcp_tf._src.manifest.types import BASE
from adaptcp_tf._src.ops.compact import compact_shard
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import op_message, translated
from adaptcp_tf._src.storage.lock import DirectoryLock


@dataclasses.dataclass(frozen=True)
class CompactReport:
    """What was done.

    Attributes:
        step: of the checkpoint.
        compacted: False if it was a base already, so that nothing was done.
        rows: in the base.
        stale_rows: copies of rows that were left out, since newer ones replaced them.
        segments_before: files of rows that a restore read.
        segments_after: that it reads now.
        bytes_before: size of all files that a restore read.
        bytes_after: that it reads now.
    """

    step: int
    compacted: bool
    rows: int
    stale_rows: int
    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int


def compact(
    directory: files.PathLike,
    *,
    num_threads: int = 4,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> CompactReport:
    """Replaces the chain of the newest checkpoint by one base, which restores to the same.

    Takes the directory's lock, so that nobody trains into it meanwhile; a trainer that restores it
    later goes on from the base. New files are written and made durable, then the manifest is
    replaced at one instant. Whatever happens before that leaves the checkpoint as it was, and garbage
    that the next collection deletes. The old files stay: older checkpoints may need them, and those
    in a buffer elsewhere that are not uploaded; so no collection must follow while there are any.

    Example:
        >>> compact("/data/run1").bytes_after
        1200000

    Args:
        directory: a path or URI; no buffer.
        num_threads: threads that read and write.
        watch: called now and then with the bytes that were read so far, and those of the chain.

    Returns:
        What was done.

    Raises:
        CheckpointNotFoundError: there is no checkpoint.
        CorruptCheckpointError: a file of it is missing or damaged.
        DirectoryLockedError: somebody trains into the directory.
        InexactCheckpointError: it is quantised: rows that are rounded once more would not be the same.
        InvalidOptionError: the directory is a buffer.
        StorageError: a file could not be read or written.
    """
    store = store_to_change(directory)
    with DirectoryLock(directory) as lock:
        step = store.latest_step()
        if step is None:
            raise errors.CheckpointNotFoundError(f"There is no checkpoint in {store.directory!r}.")
        manifest = store.read(step)
        if not manifest.exact:
            raise errors.InexactCheckpointError(
                f"The checkpoint of step {step} in {store.directory!r} cannot be compacted. Received: "
                f"rows stored as {', '.join(manifest.encodings)}. Expected: raw. Have training save a "
                "base instead."
            )
        if manifest.kind == BASE:
            return _report(manifest, manifest, rows=manifest.totals["rows"], stale_rows=0)
        store.validate(manifest)
        attempt = store.new_attempt_dir(step)
        try:
            segments, rows, stale_rows = _merge(store, manifest, attempt, num_threads, watch)
            merged = dataclasses.replace(
                manifest,
                kind=BASE,
                base_interval=manifest.interval,
                segments=extend_chain(None, segments, kind=BASE, interval=manifest.interval),
            )
            lock.check()
        except BaseException:
            with contextlib.suppress(errors.AdaptCPError):
                discard_attempt(store, attempt)
            raise
        # When this fails the manifest may still arrive, and needs the files: a collection decides.
        store.commit(merged, replace=True)
    return _report(manifest, merged, rows=rows, stale_rows=stale_rows)


def _merge(
    store: CheckpointStore,
    manifest: Manifest,
    attempt: str,
    num_threads: int,
    watch: Callable[[int, int], None],
) -> tuple[list[Segment], int, int]:
    """Writes the segments of the base; returns them, rows and stale copies of rows."""
    total = sum(segment.bytes for segment in manifest.segments)
    done = rows = stale_rows = 0
    merged: list[Segment] = []
    order = restore_order(manifest)
    for index, group in enumerate(manifest.groups):
        for shard in range(group.num_shards):
            chain = [s for s in order[group.name] if s.shard == shard]
            if not chain:
                continue
            prefix = segment_prefix(index, shard, group.num_shards)
            result = _merge_shard(
                store, manifest, group, chain, attempt=attempt, prefix=prefix, threads=num_threads
            )
            for written in result["segments"]:
                path = f"{attempt}/{written.pop('file_name')}"
                merged.append(
                    Segment(
                        path=path,
                        group=group.name,
                        shard=shard,
                        interval=manifest.interval,
                        **written,
                    )
                )
            rows += result["rows"]
            stale_rows += result["stale_rows"]
            done += sum(segment.bytes for segment in chain)
            watch(done, total)
    return merged, rows, stale_rows


def _merge_shard(
    store: CheckpointStore,
    manifest: Manifest,
    group: GroupSpec,
    chain: list[Segment],
    *,
    attempt: str,
    prefix: str,
    threads: int,
) -> dict:
    directory = store.path(attempt)
    try:
        with translated("compact files into", directory):
            return compact_shard(
                chain,
                [store.path(segment.path) for segment in chain],
                group=group.name,
                key_dtype=tf.as_dtype(group.key_dtype),
                shard=chain[0].shard,
                num_shards=group.num_shards,
                interval=manifest.interval,
                directory=directory,
                file_prefix=prefix,
                num_threads=threads,
            )
    except errors.StorageError as error:
        if not isinstance(error.__cause__, tf.errors.DataLossError):
            raise
        raise errors.CorruptCheckpointError(
            f"The checkpoint of step {manifest.step} is damaged, and stays as it is. "
            f"{op_message(error.__cause__)}"
        ) from error


def _report(before: Manifest, after: Manifest, *, rows: int, stale_rows: int) -> CompactReport:
    return CompactReport(
        step=before.step,
        compacted=before.kind != BASE,
        rows=rows,
        stale_rows=stale_rows,
        segments_before=len(before.segments),
        segments_after=len(after.segments),
        bytes_before=before.totals["bytes"],
        bytes_after=after.totals["bytes"],
    )
