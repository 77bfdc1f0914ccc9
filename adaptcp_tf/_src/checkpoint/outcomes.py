# SPDX-License-Identifier: Apache-2.0
"""What became of checkpoints in the background, for the thread that trains to look at."""

from __future__ import annotations

import dataclasses
import threading
import time

from adaptcp_tf import errors
from adaptcp_tf._src.reports import SaveReport

# A training goes on for months; the history beside the checkpoints keeps all of them.
MOST_REPORTS = 1000


class Outcomes:
    """Reports of the newest checkpoints, and the failure that nobody was told of yet. Thread-safe."""

    def __init__(self, directory: str) -> None:
        # For messages.
        self._directory = directory
        self._mutex = threading.Lock()
        self._reports: dict[int, SaveReport] = {}
        self._failure: errors.CheckpointFailedError | None = None

    @property
    def reports(self) -> list[SaveReport]:
        """Of the newest checkpoints that were committed, oldest first."""
        with self._mutex:
            return list(self._reports.values())

    def add(self, report: SaveReport) -> None:
        """Notes a checkpoint that is durable in the first tier."""
        with self._mutex:
            # Last, also when the step was saved before and then deleted.
            self._reports.pop(report.step, None)
            self._reports[report.step] = report
            while len(self._reports) > MOST_REPORTS:
                del self._reports[next(iter(self._reports))]

    def report(self, step: int) -> SaveReport:
        """Returns that of a step.

        Raises:
            CheckpointNotFoundError: it is not known, or not any more.
        """
        with self._mutex:
            report = self._reports.get(step)
            known = list(self._reports)
        if report is None:
            raise errors.CheckpointNotFoundError(
                f"There is no report of step {step}. Expected: one of the newest {MOST_REPORTS} "
                "checkpoints that this training saved. Received: "
                + (f"reports of steps {known[0]} to {known[-1]}" if known else "no report yet")
                + f". The history beside the checkpoints in {self._directory!r} has those of all."
            )
        return report

    def uploaded(self, step: int, wall_time: float) -> SaveReport | None:
        """Notes that a checkpoint, whose cut was at `wall_time`, is durable in the directory.

        Returns:
            The completed report; None when an earlier process saved the checkpoint, or this one so
            many others since that it has no report any more.
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
