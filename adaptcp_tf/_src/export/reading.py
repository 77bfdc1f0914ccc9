# SPDX-License-Identifier: Apache-2.0
"""Rows of a checkpoint without the model, in TFRA tables that belong to no variable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.restoring import restore_errors
from adaptcp_tf._src.export.progress import Progress
from adaptcp_tf._src.manifest import CheckpointStore, GroupSpec, Manifest, restore_order
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.group import AttachedTable
from adaptcp_tf._src.tables.tfra import new_table

_BLOCK_BYTES = 32 << 20


def open_checkpoint(
    directory: str | os.PathLike[str], step: int | None
) -> tuple[CheckpointStore, Manifest]:
    """Finds a checkpoint, and its files.

    Args:
        directory: of the checkpoints.
        step: which; None takes the newest.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of it is missing or has another size.
        StorageError: the store could not tell.
    """
    store = CheckpointStore(os.fspath(directory))
    if step is None:
        step = store.latest_step()
    if step is None:
        raise errors.CheckpointNotFoundError(f"There is no checkpoint in {store.directory!r}.")
    manifest = store.read(step)
    store.validate(manifest)
    return store, manifest


@contextlib.contextmanager
def restored(
    store: CheckpointStore,
    manifest: Manifest,
    spec: GroupSpec,
    *,
    shard: int | None = None,
    slots: bool = True,
    partition: tuple[int, Callable[[tf.Tensor, int], tf.Tensor]] | None = None,
    num_threads: int = 2,
    progress: Progress | None = None,
) -> Iterator[TableGroup]:
    """Tables with the rows of a group, freed in the end.

    Args:
        store: where the checkpoint is.
        manifest: which.
        spec: the group.
        shard: whose rows, of those at the time of the save; None takes all.
        slots: whether there are tables for slots, or for the parameter only.
        partition: how many shards to make, and the function from keys and their number to shards;
            None puts all rows into one.
        num_threads: threads that read and insert.
        progress: is told of the rows; None for nobody.

    Raises:
        CorruptCheckpointError: a file is damaged.
        StorageError: a file could not be read.
    """
    segments = restore_order(manifest).get(spec.name, [])
    segments = [s for s in segments if shard is None or s.shard == shard]
    key_dtype = tf.as_dtype(spec.key_dtype)
    shards, function = partition or (1, lambda keys, _: tf.zeros_like(keys))
    group = TableGroup(spec.name, key_dtype, ["/CPU:0"] * shards, function)
    try:
        for each in group.shards:
            for table in spec.tables if slots else spec.tables[:1]:
                each.attach(new_table(key_dtype, tf.as_dtype(table.dtype), table.dim), table.name)
        with restore_errors(store.directory, manifest):
            group.restore(
                manifest.interval,
                segments,
                [store.path(segment.path) for segment in segments],
                saved_shards=spec.num_shards,
                slots=slots,
                num_threads=num_threads,
            )
        rows = sum(int(t.table.size()) for each in group.shards for t in each.tables)
        with (progress or Progress()).part(segments, rows):
            yield group
    finally:
        for each in group.shards:
            # The tracker refers to the tables, so it goes first.
            for handle in (each.handle, *(t.table.resource_handle for t in each.tables)):
                tf.raw_ops.DestroyResourceOp(resource=handle)


def blocks_of(attached: AttachedTable) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yields the rows of a table that nobody updates, block by block: keys [n], values [n, dim].

    TFRA copies the table at once; the blocks are made of the copy.
    """
    keys, values = attached.table.export()
    row_bytes = values.dtype.size * values.shape[1]
    rows = max(1, _BLOCK_BYTES // row_bytes)
    for first in range(0, len(keys), rows):
        yield keys[first : first + rows], values[first : first + rows]
