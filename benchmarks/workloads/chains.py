# SPDX-License-Identifier: Apache-2.0
"""One training history, checkpointed by several strategies; and a reader as baselines have it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf._src.checkpoint.dense import dense_variables, restore_variables
from adaptcp_tf._src.manifest import CheckpointStore, restore_order
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.tfra import clear_tables

from .digest import tables
from .throughput import Workload


def save_history(
    model: tf.keras.Model,
    workload: Workload,
    directory: Path,
    policy: acp.policies.Policy,
    *,
    intervals: int,
    batches: int,
) -> int:
    """Gives the tables of a model a history and saves it: once at the start, and after each interval.

    A row's vector and slots get new values whenever a batch of the stream has its id, as if a step
    had trained it; the values depend on the batch only, so that every strategy saves the same rows.

    Args:
      model: with its slots, and with empty tables.
      workload: its pool has `intervals * batches` batches.
      directory: where the checkpoints go; only the newest stays.
      policy: the strategy.
      intervals: how many follow the first checkpoint.
      batches: of one interval.

    Returns:
      Bytes written by all checkpoints together.
    """
    options = acp.CheckpointOptions(strategy=policy, max_to_keep=1, when_busy="wait")
    manager = acp.CheckpointManager(str(directory), model=model, options=options)
    manager.change_rows(lambda groups: [clear_tables(group) for group in groups])
    workload.prefill(model)
    for step in range(intervals + 1):
        for batch in range((step - 1) * batches, step * batches):
            if batch >= 0:
                _update(model, workload, batch)
        manager.save(step)
        manager.wait()
    written = sum(report.bytes for report in manager.reports)
    manager.close()
    return written


def _update(model: tf.keras.Model, workload: Workload, batch: int) -> None:
    keys = np.unique(workload.pool.ids[batch])
    for number, variable in enumerate(itertools.chain(*tables(model))):
        rng = np.random.default_rng((workload.seed, batch, number))
        rows = rng.random((len(keys), workload.dim), dtype=np.float32)
        variable.upsert(tf.constant(keys), tf.constant(rows))


def restore_in_order(
    model: tf.keras.Model, directory: str, *, streams: int, threads: int
) -> tuple[int, int]:
    """Restores the newest checkpoint as incremental checkpointing is described in the literature.

    The files of the chain are read whole, the oldest cut first, and every copy of every row is
    inserted, so that newer ones replace older ones.

    Args:
      model: with its slots.
      directory: of the checkpoints, a path or URI.
      streams: blocks that are read at once.
      threads: blocks that are inserted at once.

    Returns:
      Copies of rows that were inserted, and bytes read from segments.
    """
    store = CheckpointStore(directory)
    manifest = store.read(store.latest_step())
    manager = acp.CheckpointManager(directory, model=model)

    def load(groups: list[TableGroup]) -> tuple[int, int]:
        rows, read = 0, 0
        for group in groups:
            clear_tables(group)
            oldest_first = reversed(restore_order(manifest)[group.name])
            for _, cut in itertools.groupby(oldest_first, key=lambda s: (s.kind, s.interval)):
                segments = list(cut)
                # A restore of one cut by itself knows no newer copies.
                result = group.restore(
                    manifest.interval,
                    segments,
                    [store.path(segment.path) for segment in segments],
                    saved_shards=group.num_shards,
                    slots=True,
                    num_threads=threads,
                    read_threads=streams,
                )
                rows += result["rows"]
                read += result["bytes_read"]
        return rows, read

    loaded = manager.change_rows(load)
    paths = {path: store.path(path) for path in manifest.files()}
    restore_variables(manifest.dense, paths, dense_variables(model, None))
    manager.close()
    return loaded
