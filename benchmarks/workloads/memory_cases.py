# SPDX-License-Identifier: Apache-2.0
"""What `memory.py` measures in a process of its own each: saves, restores, and both without us."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

import adaptcp_tf as acp
from adaptcp_tf._src.tables import discover_groups

from . import models, slow_store
from .criteo_stream import NUM_CATEGORICAL, NUM_DENSE
from .digest import tables
from .resident_memory import PeakMeter, release_free_memory, resident_bytes
from .rows import fill_tables, spread_keys

TRAINING = "training alone"
BASE = "base"

PRESIZED = "presized"
DEFAULT_SIZE = "default size"
RESTORE = "restore"
UPSERT = "upsert"

_MODEL = "memory"
_WARMUP_STEPS = 3
# As many as a restore inserts at once.
_ROWS_PER_UPSERT = 5_000


@dataclasses.dataclass(frozen=True)
class SavingCase:
    """How a checkpoint is taken.

    strategy: of adaptcp_tf.
    base_before: whether a base comes first, so that the one that is measured is an increment.
    buffer: whether it goes to an SSD buffer and is uploaded from there.
    stream_bytes_per_sec: of a store without a buffer before it; None for the local disk.
    """

    strategy: str = "full"
    base_before: bool = False
    buffer: bool = False
    stream_bytes_per_sec: float | None = None


SAVING: dict[str, SavingCase] = {
    BASE: SavingCase(),
    "increment": SavingCase("incremental", base_before=True),
    "base, buffer and upload": SavingCase(buffer=True),
    "base, slow store": SavingCase(stream_bytes_per_sec=25e6),
}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of the model and its training.

    rows: in each table before training begins.
    dim: length of the embedding vectors.
    batch: samples a step, of 26 ids each.
    steps: trained before the checkpoint, and at least as many after it.
    seed: of values and ids.
    """

    rows: int
    dim: int
    batch: int
    steps: int
    seed: int


class _Training:
    """A model with a table and two slot tables, trained on rows drawn at random."""

    def __init__(self, sizes: Sizes, capacity: int):
        self._sizes = sizes
        self._rng = np.random.default_rng(sizes.seed)
        self._keys = spread_keys(sizes.rows)
        self.model = models.criteo_model(
            sizes.dim, name=_MODEL, seed=sizes.seed, init_capacity=capacity
        )
        models.create_slots(self.model)

    def fill(self, rows_per_call: int = 200_000) -> None:
        """Gives every table its rows."""
        (group,) = tables(self.model)
        fill_tables(group, self._keys, seed=self._sizes.seed, rows_per_call=rows_per_call)

    def train(self, steps: int) -> None:
        """Updates rows that are in the tables."""
        for _ in range(steps):
            numbers = self._rng.integers(len(self._keys), size=(self._sizes.batch, NUM_CATEGORICAL))
            dense = self._rng.random((self._sizes.batch, NUM_DENSE), dtype=np.float32)
            labels = self._rng.integers(2, size=(self._sizes.batch, 1)).astype(np.float32)
            self.model.train_on_batch({"ids": self._keys[numbers], "dense": dense}, labels)

    def tracker_bytes(self) -> int:
        """The trackers' own account of their memory."""
        groups = discover_groups(self.model, None, ())
        shards = [shard for group in groups for shard in group.shards]
        return sum(shard.stats()["tracker_bytes"] for shard in shards)


def measure_training(sizes: Sizes) -> dict[str, Any]:
    """Trains as `measure_saving` does, without any of our code; returns the same `peak`."""
    training = _Training(sizes, capacity=sizes.rows)
    training.train(_WARMUP_STEPS)
    training.fill()
    meter = PeakMeter()
    training.train(2 * sizes.steps)
    return {"peak": meter.stop() - meter.start_bytes, "method": meter.method}


def measure_saving(sizes: Sizes, case: str, directory: Path) -> dict[str, Any]:
    """Trains an interval, takes a checkpoint and trains on until it is durable.

    Args:
        sizes: of tables and training.
        case: of `SAVING`.
        directory: where the checkpoint goes; the buffer, if there is one, is beside it.

    Returns:
        Bytes: `peak`, above what was resident just before; `tracker` and `tracker_growth`, by the
        trackers' own account. Besides, what was saved.
    """
    training = _Training(sizes, capacity=sizes.rows)
    manager = _manage(training, SAVING[case], directory)
    training.train(_WARMUP_STEPS)
    # Rows that no optimizer made end the log of updates, so that all of it is measured below.
    training.fill()
    step = 1
    if SAVING[case].base_before:
        manager.save(step)
        manager.wait()
        step += 1
    tracker = [training.tracker_bytes()]
    meter = PeakMeter()
    training.train(sizes.steps)
    tracker.append(training.tracker_bytes())
    start = time.perf_counter()
    manager.save(step)
    trained = 0
    while trained < sizes.steps or not _is_durable(manager):
        training.train(1)
        trained += 1
    seconds = time.perf_counter() - start
    peak = meter.stop() - meter.start_bytes
    tracker.append(training.tracker_bytes())
    manager.close()
    report = manager.reports[-1]
    return {
        "peak": peak,
        "tracker": max(tracker),
        "tracker_growth": max(tracker) - tracker[0],
        "rows_saved": report.rows_hot + report.rows_cold,
        "rows_saved_on_update": report.rows_saved_on_update,
        "steps_meanwhile": trained,
        "seconds": seconds,
        "method": meter.method,
    }


def _manage(training: _Training, case: SavingCase, directory: Path) -> acp.CheckpointManager:
    where = str(directory)
    if case.stream_bytes_per_sec is not None:
        slow_store.configure(stream_bytes_per_sec=case.stream_bytes_per_sec)
        where = slow_store.url(directory)
    options = acp.CheckpointOptions(
        strategy=case.strategy, local_dir=f"{directory}-buffer" if case.buffer else None
    )
    return acp.CheckpointManager(where, model=training.model, options=options)


def _is_durable(manager: acp.CheckpointManager) -> bool:
    try:
        manager.wait(timeout_secs=0)
    except TimeoutError:
        return False
    return True


def measure_loading(sizes: Sizes, how: str, size: str, directory: Path) -> dict[str, Any]:
    """Loads rows into a new model's tables, by a restore or by inserting them.

    Args:
        sizes: of the tables.
        how: "restore", or "upsert" of the same rows in as small batches, without any of our code.
        size: whether the tables have room for the rows beforehand, "presized", or "default size".
        directory: the checkpoint.

    Returns:
        Bytes, above what was resident just before: `peak`, and what stays, `kept`; and `tracker`.
    """
    training = _Training(sizes, capacity=sizes.rows if size == PRESIZED else 0)
    meter = PeakMeter()
    start = time.perf_counter()
    tracker = 0
    if how == RESTORE:
        manager = acp.CheckpointManager(str(directory), model=training.model)
        manager.restore()
        tracker = training.tracker_bytes()
        manager.close()
        del manager
    else:
        training.fill(_ROWS_PER_UPSERT)
    seconds = time.perf_counter() - start
    peak = meter.stop() - meter.start_bytes
    release_free_memory()
    loaded = [int(variable.size()) for variable in tables(training.model)[0]]
    if loaded != [sizes.rows] * len(loaded):
        raise RuntimeError(f"{how} loaded {loaded} rows, expected {sizes.rows} in every table")
    return {
        "peak": peak,
        "kept": resident_bytes() - meter.start_bytes,
        "tracker": tracker,
        "seconds": seconds,
        "method": meter.method,
    }
