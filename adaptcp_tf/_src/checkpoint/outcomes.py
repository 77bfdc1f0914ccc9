# SPDX-License-Identifier: Apache-2.0
"""What became of checkpoints in the background, for the thread that trains to look at."""

from __future__ import annotations

import dataclasses
import threading
import time

from adaptcp_tf import errors
from adaptcp_tf._src.reports import SaveReport


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

    def uploaded(self, step: int, wall_time: float) -> SaveReport | None:
        """Notes that a checkpoint, whose cut was at `wall_time`, is durable in the directory.

        Returns:
            The completed report; None when an earlier process saved the checkpoint.
        """
        with self._mutex:
            report = self._reports.get(step)
            if report is None:
                return None
            seconds = max(0.0, time.time() - wall_time)
            self._reports[step] = dataclasses.replace(report, seconds_to_uploaded=seconds)
            return self._reports[step]

    def fail(self, failure: errors.CheckpointFailedError) -> None:
        """Notes a failure; one that nobody was told of yet is replaced."""
        with self._mutex:
            self._failure = failure

    def take_failure(self) -> errors.CheckpointFailedError | None:
        """Returns the failure, once."""
        with self._mutex:
            failure, self._failure = self._failure, None
            return failure
