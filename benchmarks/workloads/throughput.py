# SPDX-License-Identifier: Apache-2.0
"""Trains one model per strategy in turns in one process, so that their throughputs can be compared."""

from __future__ import annotations

import dataclasses
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import adaptcp_tf as acp

from . import models
from .criteo_stream import FEATURE_SHIFT, Batch, ClickStream, CriteoStream
from .digest import tables
from .rows import fill_tables

NONE = "none"
TRACKING = "tracking"
# Behind a strategy: the input pipeline saves rows whose ids it sees.
PREFETCH = "+prefetch"

# Batches that every contender's input pipeline prepares ahead.
_PREFETCHED_BATCHES = 2

_MIN_WARMUP_STEPS = 20


@dataclasses.dataclass(frozen=True)
class Workload:
    """The input all contenders share.

    rows: rows the tables hold before training: the ids most frequent in the stream.
    stream: where batches and the most frequent ids come from.
    pool: batches drawn ahead; training cycles through them.
    num_tables: embedding tables, which share the features.
    """

    rows: int
    dim: int
    stream: ClickStream
    pool: Batch
    num_tables: int = 1

    @classmethod
    def draw(
        cls,
        *,
        batches: int,
        batch_size: int = 2048,
        seed: int = 0,
        stream: ClickStream | None = None,
        **sizes: int,
    ) -> Workload:
        """Draws `batches` batches of a stream; None is the Criteo-like one of this size and seed."""
        stream = stream or CriteoStream(batch_size, seed)
        return cls(stream=stream, pool=stream.batches(0, batches), **sizes)

    @property
    def seed(self) -> int:
        """Of the stream and of all initial values."""
        return self.stream.seed

    def dataset(self, start: int, steps: int) -> tf.data.Dataset:
        """Batches `start` .. `start + steps - 1`, copied into tensors before training begins."""
        at = np.arange(start, start + steps) % len(self.pool.labels)
        inputs = {"ids": self.pool.ids[at], "dense": self.pool.dense[at]}
        return tf.data.Dataset.from_tensor_slices((inputs, self.pool.labels[at]))

    def prefill(self, model: tf.keras.Model) -> None:
        """Gives every table of the model its rows, slots included."""
        keys = self.stream.popular_ids(self.rows)
        table_of = ((keys >> FEATURE_SHIFT) - 1) % self.num_tables
        for number, group in enumerate(tables(model)):
            fill_tables(group, keys[table_of == number], seed=self.seed)


class StepTimer(tf.keras.callbacks.Callback):
    """Times the steps of one `fit`, other callbacks included if it comes last among them."""

    _supports_tf_logs = True

    def __init__(self):
        super().__init__()
        self._wall: list[float] = []
        self._cpu: list[float] = []

    def on_epoch_begin(self, epoch, logs=None):
        """Starts the clocks."""
        self._wall = [time.perf_counter()]
        self._cpu = [time.process_time()]

    def on_train_batch_end(self, batch, logs=None):
        """Takes the times."""
        self._wall.append(time.perf_counter())
        self._cpu.append(time.process_time())

    def step_seconds(self) -> list[float]:
        """The duration of each step, in order."""
        return np.diff(self._wall).tolist()

    def cpu_seconds(self) -> list[float]:
        """CPU time of the whole process during each step, in order."""
        return np.diff(self._cpu).tolist()


@dataclasses.dataclass
class Measured:
    """What one contender did in one round: wall seconds of each step, CPU seconds of all of them."""

    step_seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: float = 0.0


class Contender:
    """One strategy at one interval, with a model, tables and a directory of its own.

    Args:
      strategy: a strategy of adaptcp_tf, "none" (untracked tables) or "tracking" (tracked tables,
        never a checkpoint); with "+prefetch" behind it the input goes through `acp.data.prefetch`.
      interval: batches between checkpoints; None for "none" and "tracking".
      workload: the input.
      directory: where this contender's checkpoints go, in a folder of its name.
      name: differs from those of other contenders with the same strategy and interval; default: the
        strategy.
      options: of the callback, besides; a policy object as `strategy` takes the place of the above.
    """

    def __init__(
        self,
        strategy: str,
        interval: int | None,
        workload: Workload,
        directory: Path | str,
        *,
        name: str | None = None,
        options: dict[str, Any] | None = None,
    ):
        self.strategy = strategy
        self.interval = interval
        self.name = name or strategy
        self.rounds: list[Measured] = []
        self._workload = workload
        self._position = 0
        self._warmup_checkpoints = 0
        self._timer = StepTimer()
        self._checkpoint: acp.keras.AdaptiveCheckpoint | None = None
        self._callbacks: list[tf.keras.callbacks.Callback] = []
        # TensorFlow takes letters, digits and the like in a name.
        name = f"{re.sub(r'[^A-Za-z0-9]+', '_', self.name)}_{interval or 0}"
        self.model = models.criteo_model(
            workload.dim, name=name, seed=workload.seed, num_tables=workload.num_tables
        )
        models.create_slots(self.model)
        workload.prefill(self.model)
        if strategy != NONE:
            strategy_options = {"save_freq": interval, "strategy": strategy.removesuffix(PREFETCH)}
            if strategy == TRACKING:
                strategy_options = {"save_freq": sys.maxsize}
            # Waits, since a contender that skips checkpoints would look cheaper than it is.
            self._checkpoint = acp.keras.AdaptiveCheckpoint(
                f"{directory}/{name}",
                when_busy="wait",
                max_to_keep=2,
                save_at_end=False,
                progress=False,
                **{**strategy_options, **(options or {})},
            )
            self._callbacks.append(self._checkpoint)

    def warm_up(self, steps: int) -> None:
        """Trains without measuring: traces the graph, writes the first checkpoint."""
        self._train(steps)
        self._warmup_checkpoints = len(self.history())

    def start_round(self) -> None:
        """What is trained from here on counts into a new round."""
        self.rounds.append(Measured())

    def forget_rounds(self) -> None:
        """What was trained so far was warm-up."""
        self.rounds.clear()
        self._warmup_checkpoints += len(self.history())

    def run(self, steps: int, lead_in: int = 0) -> None:
        """Trains `steps` steps within the current round, after `lead_in` steps not measured."""
        self._train(lead_in + steps)
        self.rounds[-1].step_seconds += self._timer.step_seconds()[lead_in:]
        self.rounds[-1].cpu_seconds += sum(self._timer.cpu_seconds()[lead_in:])

    def _train(self, steps: int) -> None:
        dataset = self._prefetched(self._workload.dataset(self._position, steps))
        self._position += steps
        self.model.fit(
            dataset, steps_per_epoch=steps, verbose=0, callbacks=[*self._callbacks, self._timer]
        )
        if self._checkpoint is not None:
            self._checkpoint.wait()  # so that no work of it runs into another contender's turn

    def _prefetched(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        if not self.strategy.endswith(PREFETCH):
            return dataset.prefetch(_PREFETCHED_BATCHES)
        return acp.data.prefetch(
            dataset,
            self._checkpoint,
            ids=lambda x, y: self.model.ids_by_table(x),
            buffer_size=_PREFETCHED_BATCHES,
        )

    def history(self) -> list[dict[str, Any]]:
        """The checkpoints of the measured rounds."""
        history = [] if self._checkpoint is None else self._checkpoint.history
        return history[self._warmup_checkpoints :]

    def superseded(self) -> int:
        """How many checkpoints were not uploaded, since a newer one was; warm-up included."""
        return 0 if self._checkpoint is None else self._checkpoint.manager.storage.superseded

    def restore_seconds(self) -> float | None:
        """Restores the newest checkpoint into the tables; None if there is no checkpoint."""
        if self.interval is None:
            return None
        return self._checkpoint.manager.restore().seconds

    def close(self) -> None:
        """Stops tracking."""
        if self._checkpoint is not None:
            self._checkpoint.close()


@dataclasses.dataclass
class Repeated:
    """What one strategy at one interval did in several competitions, each with tables of its own.

    Where tables happen to lie in memory makes one contender faster than another by some percent for
    as long as both live. Only new tables average that out.
    """

    strategy: str
    interval: int | None
    rounds: list[Measured] = dataclasses.field(default_factory=list)
    checkpoints: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    superseded: int = 0

    def add(self, contender: Contender) -> None:
        """Adds the rounds and checkpoints of one competition."""
        self.rounds += contender.rounds
        self.checkpoints += contender.history()
        self.superseded += contender.superseded()

    def history(self) -> list[dict[str, Any]]:
        """The checkpoints of all measured rounds."""
        return self.checkpoints


def warmup_steps(intervals: Sequence[int]) -> int:
    """Steps after which every interval is about half over.

    Segments that start there end half an interval after their last checkpoint, so its background
    work falls into the time measured.
    """
    longest = max(intervals)
    first = max(longest, _MIN_WARMUP_STEPS)
    return min(
        range(first, first + longest),
        key=lambda steps: sum(abs(steps % interval / interval - 0.5) for interval in intervals),
    )


def compete(
    contenders: Sequence[Contender],
    *,
    rounds: int,
    steps: int,
    warmup: int,
    lead_in: int = 0,
    on_progress: Callable[[str], None],
) -> None:
    """Lets the contenders train in turns.

    In each round every contender trains twice `steps` steps, in the order A B ... B A, so that a
    steady drift of the machine's speed cancels within the round.

    Args:
      contenders: who takes part.
      rounds: number of rounds.
      steps: steps of one turn; a multiple of every interval.
      warmup: steps before the first round, from `warmup_steps`; 0 if they are warm already.
      lead_in: steps at the beginning of each turn that are not measured.
      on_progress: called with a line about what begins.
    """
    for contender in contenders if warmup else ():
        on_progress(f"warm-up: {contender.name} {contender.interval or ''}")
        contender.warm_up(warmup)
    for number in range(1, rounds + 1):
        for contender in contenders:
            contender.start_round()
        for contender in [*contenders, *reversed(contenders)]:
            on_progress(f"round {number} of {rounds}: {contender.name} {contender.interval or ''}")
            contender.run(steps, lead_in)


def summarize(
    contender: Contender | Repeated, baseline: Contender | Repeated, batch_size: int
) -> dict[str, Any]:
    """The figures of one contender against the one without checkpoints, round by round."""
    ratios = [
        sum(base.step_seconds) / sum(own.step_seconds)
        for base, own in zip(baseline.rounds, contender.rounds)
    ]
    step_seconds = [step for one in contender.rounds for step in one.step_seconds]
    cpu_seconds = sum(one.cpu_seconds for one in contender.rounds)
    history = contender.history()
    stalls = [checkpoint["stall_ms"] for checkpoint in history]
    return {
        "strategy": contender.strategy,
        "interval": contender.interval,
        "samples_per_second": batch_size * len(step_seconds) / sum(step_seconds),
        "ratio_to_none": statistics.median(ratios),
        "ratio_to_none_lowest": min(ratios),
        "ratio_to_none_highest": max(ratios),
        "step_ms_median": 1e3 * statistics.median(step_seconds),
        "cpu_ms_per_step": 1e3 * cpu_seconds / len(step_seconds),
        "cpu_ratio_to_none": sum(one.cpu_seconds for one in baseline.rounds) / cpu_seconds,
        "stall_ms_per_checkpoint": statistics.median(stalls) if stalls else None,
        "stall_ms_max": max(stalls, default=None),
        "bytes_written": sum(checkpoint["bytes"] for checkpoint in history),
        "checkpoints": len(history),
        "share_saved_on_update": _share_saved_on_update(history),
        "rows_prefetched": sum(checkpoint["rows_prefetched"] for checkpoint in history),
    }


def _share_saved_on_update(history: Sequence[dict[str, Any]]) -> float | None:
    """The part of the saved rows that the training thread saved; None when none was saved."""
    on_update = sum(checkpoint["rows_saved_on_update"] for checkpoint in history)
    ahead = sum(one["rows_prefetched"] + one["rows_drained"] for one in history)
    return on_update / (on_update + ahead) if on_update + ahead else None
