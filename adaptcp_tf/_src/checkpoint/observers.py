# SPDX-License-Identifier: Apache-2.0
"""Tells others of checkpoints, on the threads that save and upload, never on the one that trains."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport

logger = logging.getLogger("adaptcp_tf")


class Observer(Protocol):
    """Hears of each checkpoint; what it raises is logged once and harms nobody else."""

    def saved(self, report: SaveReport, rates: Callable[[], RateHistogram]) -> None:
        """A checkpoint is durable in the first tier.

        Args:
            report: what became of it.
            rates: measures how the rows' update rates are distributed, in some milliseconds; may be
                called in here only.
        """
        ...

    def uploaded(self, report: SaveReport) -> None:
        """A checkpoint that was saved to the buffer is durable in the directory too."""
        ...

    def close(self) -> None:
        """No more will come."""
        ...


class Observers:
    """All observers of a manager. Thread-safe as far as they are."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._complained: set[int] = set()
        self._closed = False

    def add(self, observer: Observer) -> None:
        """From now on it is told; before the first save."""
        self._observers.append(observer)

    def saved(self, report: SaveReport, rates: Callable[[], RateHistogram]) -> None:
        """Tells all of a checkpoint that is durable in the first tier."""
        self._tell(lambda observer: observer.saved(report, rates))

    def uploaded(self, report: SaveReport) -> None:
        """Tells all of a checkpoint that is durable in the directory."""
        self._tell(lambda observer: observer.uploaded(report))

    def close(self) -> None:
        """Tells all that no more will come."""
        self._tell(lambda observer: observer.close())
        self._closed = True

    def _tell(self, call: Callable[[Observer], None]) -> None:
        if self._closed:
            return  # an upload that was under way when its manager was closed
        for observer in self._observers:
            try:
                call(observer)
            except Exception as error:
                if id(observer) not in self._complained:
                    self._complained.add(id(observer))
                    logger.warning(
                        "checkpoints are saved, but %s could not note one: %s", observer, error
                    )
