# SPDX-License-Identifier: Apache-2.0
"""Takes checkpoint after checkpoint of simulated rows, as a policy decides."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from adaptcp_tf._src.policy import CutReport, Policy
from adaptcp_tf._src.simulator.rows import SimulatedRows
from adaptcp_tf._src.simulator.segments import RowLayout

SegmentBytes = Callable[[int], int]


@dataclasses.dataclass(frozen=True)
class Storage:
    """What reading and writing costs.

    Attributes:
        write_secs_per_byte: from the cut until the checkpoint is durable, by its bytes.
        read_secs_per_byte: of a restore.
        lost_secs_per_byte: by how much training gets longer while something is written beside it.
        copy_secs_per_byte: for how long training waits for a stop-and-copy snapshot, by the bytes
            of its rows in memory.
    """

    write_secs_per_byte: float = 1 / 500e6
    read_secs_per_byte: float = 1 / 500e6
    lost_secs_per_byte: float = 1 / 5e9
    copy_secs_per_byte: float = 1 / 1e9


@dataclasses.dataclass(frozen=True)
class SimulatedCheckpoint:
    """One checkpoint of a simulation.

    Attributes:
        base: whether it is a base.
        hot_threshold: updates per interval from which a row is hot; above 1 none is.
        rows_hot: rows written to the differential, or hot rows of a base.
        rows_cold: rows written to the increment, or the other rows of a base.
        rows_live: rows there are.
        bytes: size of its new segments.
        interval_secs: of training since the checkpoint before, or the start.
        lost_secs: by how much it makes training longer.
        stall_secs: the part of it in which training stands still.
        chain_rows: rows in all segments that a restore of it opens, stale ones included.
        chain_bytes: size of those segments.
    """

    base: bool
    hot_threshold: float
    rows_hot: int
    rows_cold: int
    rows_live: int
    bytes: int
    interval_secs: float
    lost_secs: float
    stall_secs: float
    chain_rows: int
    chain_bytes: int


@dataclasses.dataclass
class _Chain:
    """Sizes of the segments that the newest checkpoint is made of."""

    kept_rows: int = 0
    kept_bytes: int = 0
    differential_rows: int = 0
    differential_bytes: int = 0

    def extend(self, kept: int, differential: int, base: bool, segment_bytes: SegmentBytes) -> int:
        """Adds a cut of so many rows for good, and for its differential; returns its bytes."""
        if base:
            self.kept_rows = self.kept_bytes = 0
        kept_bytes = segment_bytes(kept)
        self.kept_rows += kept
        self.kept_bytes += kept_bytes
        self.differential_rows = differential
        self.differential_bytes = segment_bytes(self.differential_rows)
        return kept_bytes + self.differential_bytes


def simulate(
    updates: Iterable[np.ndarray],
    policy: Policy,
    *,
    layout: RowLayout,
    interval_secs: float,
    storage: Storage | None = None,
    rate_half_life_intervals: float = 16.0,
    weights: np.ndarray | None = None,
    when_busy: str = "wait",
) -> Iterator[SimulatedCheckpoint]:
    """Runs a policy over a stream of updates, with a checkpoint after each interval.

    The rows of each checkpoint are those that the engine would write. The first is a base.

    Example:
        >>> run = simulate(updates, Incremental(), layout=RowLayout.of_floats(16, 2), interval_secs=9)
        >>> sum(checkpoint.bytes for checkpoint in run)
        1034144

    Args:
        updates: per interval the numbers, from 0, of the rows it updates: [n] integers.
        policy: what decides; it is told of every checkpoint.
        layout: what a row is made of.
        interval_secs: seconds of training between two checkpoints.
        storage: what reading and writing costs.
        rate_half_life_intervals: after how many intervals an update counts half in a row's rate.
        weights: [n] how many rows each row stands for; None: one.
        when_busy: what happens to a checkpoint that is due while the one before is being written:
            "wait" holds up training until that is done, "skip" leaves its rows to the next.

    Yields:
        The checkpoints, in order.
    """
    storage = storage or Storage()
    rows = SimulatedRows(rate_half_life_intervals, weights)
    chain = _Chain()
    first = True
    trained_secs = busy_secs = 0.0
    for updated in updates:
        rows.update(np.asarray(updated))
        trained_secs += interval_secs
        busy_secs -= interval_secs
        if busy_secs > 0 and when_busy == "skip":
            continue
        decision = policy.decide()
        base = first or decision.base
        saved = rows.cut(decision, base)
        kept = rows.count(saved.base) + rows.count(saved.increment)
        differential = rows.count(saved.differential)
        segment_bytes = functools.partial(
            layout.segment_bytes,
            encoding=decision.encoding,
            slot_encoding=decision.slot_encoding,
        )
        written = chain.extend(kept, differential, base, segment_bytes)
        rows_hot = rows.count(saved.hot)
        write_secs = written * storage.write_secs_per_byte
        slowed_secs = written * storage.lost_secs_per_byte
        busy_secs = write_secs
        stall_secs = 0.0
        if when_busy == "wait":
            stall_secs = max(0.0, write_secs - interval_secs - slowed_secs)
        if decision.stop_and_copy:
            stall_secs += (kept + differential) * layout.row_bytes * storage.copy_secs_per_byte
        checkpoint = SimulatedCheckpoint(
            base=base,
            hot_threshold=decision.hot_threshold,
            rows_hot=rows_hot,
            rows_cold=kept + differential - rows_hot,
            rows_live=rows.live,
            bytes=written,
            interval_secs=trained_secs,
            lost_secs=stall_secs + slowed_secs,
            stall_secs=stall_secs,
            chain_rows=chain.kept_rows + chain.differential_rows,
            chain_bytes=chain.kept_bytes + chain.differential_bytes,
        )
        policy.observe(
            CutReport(
                base=base,
                rows_hot=checkpoint.rows_hot,
                rows_cold=checkpoint.rows_cold,
                rows_live=checkpoint.rows_live,
                bytes=written,
                stall_secs=stall_secs,
                lost_secs=checkpoint.lost_secs,
                seconds_to_durable=write_secs,
                interval_secs=trained_secs,
                rates=rows.rates,
            )
        )
        first = False
        trained_secs = 0.0
        yield checkpoint
