# SPDX-License-Identifier: Apache-2.0
"""Writes the history of a run while it goes on."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from adaptcp_tf._src.history.files_of_reports import encode_lines, history_name
from adaptcp_tf._src.manifest import Tiers
from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport
from adaptcp_tf._src.storage import files

# Files are written whole, since object stores cannot append.
_REPORTS_PER_FILE = 256
_MIN_SECS_BETWEEN_WRITES = 1.0


class HistoryLog:
    """An observer that keeps the history beside the checkpoints, in both tiers.

    A process begins a file of its own. Files are written at most once a second, and when it ends;
    a process that is killed may lose the lines of its last second.

    Args:
        tiers: where.
    """

    def __init__(self, tiers: Tiers):
        self._tiers = tiers
        self._mutex = threading.Lock()
        # Guarded by the mutex: name -> step -> report; what changed since it was written, by tier.
        self._files: dict[str, dict[int, dict[str, Any]]] = {}
        self._changed: list[set[str]] = [set() for _ in tiers.stores]
        self._written_at = [-_MIN_SECS_BETWEEN_WRITES for _ in tiers.stores]

    def __str__(self) -> str:
        return f"the history of {self._tiers.directory!r}"

    def saved(self, report: SaveReport, rates: Callable[[], RateHistogram]) -> None:
        """Adds a line; the directory behind a buffer gets it with its next upload."""
        with self._mutex:
            self._put(report)
            self._write(0)

    def uploaded(self, report: SaveReport) -> None:
        """Completes a line."""
        with self._mutex:
            self._put(report)
            for tier in range(len(self._changed)):
                self._write(tier)

    def close(self) -> None:
        """Writes what is left."""
        with self._mutex:
            for tier in range(len(self._changed)):
                self._write(tier, now=True)

    def _put(self, report: SaveReport) -> None:
        name = next((name for name, lines in self._files.items() if report.step in lines), None)
        if name is None:
            name = next(reversed(self._files), None)
            if name is None or len(self._files[name]) >= _REPORTS_PER_FILE:
                self._forget_written()
                name = history_name(report.step)
                self._files[name] = {}
        self._files[name][report.step] = dataclasses.asdict(report)
        for changed in self._changed:
            changed.add(name)

    def _forget_written(self) -> None:
        """Keeps the two newest files: uploads still complete their lines."""
        for name in list(self._files)[:-1]:
            if not any(name in changed for changed in self._changed):
                del self._files[name]

    def _write(self, tier: int, now: bool = False) -> None:
        elapsed = time.monotonic() - self._written_at[tier]
        if not self._changed[tier] or (not now and elapsed < _MIN_SECS_BETWEEN_WRITES):
            return
        # Before the first try, so that a store that fails is not asked at every checkpoint.
        self._written_at[tier] = time.monotonic()
        store = self._tiers.stores[tier]
        for name in sorted(self._changed[tier]):
            lines = self._files[name].values()
            files.write_durably(store.path(name), encode_lines(lines))
            self._changed[tier].discard(name)
