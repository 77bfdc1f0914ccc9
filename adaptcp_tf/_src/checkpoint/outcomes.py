# SPDX-License-Identifier: Apache-2.0
"""What became of checkpoints in the background, for the thread that trains to look at."""

from __future__ import annotations

import dataclasses
import threading
import time

from adaptcp_tf import errors


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """What became of one checkpoint; rows count once a shard and table group.

    Attributes:
        step: the step.
        kind: "base" or "delta".
        hot_threshold: updates per interval from which a row is hot; above 1 none is.
        rows_hot: rows written to differentials, or hot rows of a base.
        rows_cold: rows written to increments, or the other rows of a base.
        tombstones: removed keys written.
        rows_saved_on_update: rows that training itself saved, just before it changed them.
        rows_drained: rows saved in the background.
        rows_prefetched: rows that `acp.data.prefetch` saved while the input was prepared.
        bytes: size of the new files.
        stall_ms: for how long training was held up, in milliseconds.
        room_wait_ms: how much of that it waited for room in the buffer, in milliseconds.
        seconds_to_durable: from the cut until it survives a power loss, in the buffer if there is
            one.
        seconds_to_uploaded: from the cut until it was durable in the directory; None while it is
            not, and for checkpoints that were left out because a newer one was uploaded.
    """

    step: int
    kind: str
    hot_threshold: float
    rows_hot: int
    rows_cold: int
    tombstones: int
    rows_saved_on_update: int
    rows_drained: int
    rows_prefetched: int
    bytes: int
    stall_ms: float
    room_wait_ms: float
    seconds_to_durable: float
    seconds_to_uploaded: float | None


class Outcomes:
    """Reports of checkpoints, and the failure that nobody was told of yet. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._reports: dict[int, SaveReport] = {}
        self._failure: errors.CheckpointFailedError | None = None

    @property
    def reports(self) -> list[SaveReport]:
        """Of each checkpoint that was committed, oldest first."""
        with self._mutex:
            return list(self._reports.values())

    def add(self, report: SaveReport) -> None:
        """Notes a checkpoint that is durable in the first tier."""
        with self._mutex:
            self._reports[report.step] = report

    def uploaded(self, step: int, wall_time: float) -> None:
        """Notes that a checkpoint, whose cut was at `wall_time`, is durable in the directory."""
        with self._mutex:
            report = self._reports.get(step)
            # An earlier process may have saved it.
            if report is not None:
                seconds = max(0.0, time.time() - wall_time)
                self._reports[step] = dataclasses.replace(report, seconds_to_uploaded=seconds)

    def fail(self, failure: errors.CheckpointFailedError) -> None:
        """Notes a failure; one that nobody was told of yet is replaced."""
        with self._mutex:
            self._failure = failure

    def take_failure(self) -> errors.CheckpointFailedError | None:
        """Returns the failure, once."""
        with self._mutex:
            failure, self._failure = self._failure, None
            return failure
