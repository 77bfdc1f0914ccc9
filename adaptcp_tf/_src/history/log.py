# SPDX-License-Identifier: Apache-2.0
"""Writes the history of a run while it goes on."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from adaptcp_tf import errors
from adaptcp_tf._src.history.files_of_reports import (
    HISTORY_DIR,
    encode_line,
    history_files,
    history_name,
)
from adaptcp_tf._src.manifest import CheckpointStore, Tiers
from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport
from adaptcp_tf._src.storage import files

# Files are written whole, since object stores cannot append.
_REPORTS_PER_FILE = 4096
# A larger file is written less often, so that the bytes per second stay the same.
_REPORTS_PER_SEC = 256
_FILES_IN_BUFFER = 16


@dataclasses.dataclass(frozen=True)
class _Line:
    report: SaveReport
    encoded: bytes


class HistoryLog:
    """An observer that keeps the history beside the checkpoints, in both tiers.

    A process begins a file of its own. Files are written at most once a second, large ones less
    often, and when the process ends; one that is killed may lose the lines since.

    Args:
        tiers: where.
    """

    def __init__(self, tiers: Tiers):
        self._tiers = tiers
        # All locks are reentrant: a finalizer may close the log on a thread that holds them.
        # One a tier, held while it is written, so that a slow one does not hold up the other.
        self._writing = [threading.RLock() for _ in tiers.stores]
        # Guarded by those: when a tier may be written again.
        self._rests_until = [0.0 for _ in tiers.stores]
        # Never held while something is read or written.
        self._mutex = threading.RLock()
        # Guarded by it: name -> step -> line; what changed since it was written, by tier.
        self._files: dict[str, dict[int, _Line]] = {}
        self._changed: list[set[str]] = [set() for _ in tiers.stores]

    def __str__(self) -> str:
        return f"the history of {self._tiers.directory!r}"

    def saved(self, report: SaveReport, rates: Callable[[], RateHistogram]) -> None:
        """Adds a line; the directory behind a buffer gets it with its next upload."""
        self._put(report)
        self._write(0)

    def uploaded(self, report: SaveReport) -> None:
        """Completes a line."""
        self._put(report)
        for tier in range(len(self._tiers.stores)):
            self._write(tier)

    def close(self) -> None:
        """Writes what is left."""
        for tier in range(len(self._tiers.stores)):
            self._write(tier, now=True)

    def _put(self, report: SaveReport) -> None:
        line = _Line(report, encode_line(dataclasses.asdict(report)))
        with self._mutex:
            name = next((name for name, lines in self._files.items() if report.step in lines), None)
            if name is None:
                name = next(reversed(self._files), None)
                if name is None or len(self._files[name]) >= _REPORTS_PER_FILE:
                    self._forget_written()
                    name = history_name(report.step)
                    self._files[name] = {}
            elif _is_completed_by(report, self._files[name][report.step].report):
                return  # its upload was over first
            self._files[name][report.step] = line
            for changed in self._changed:
                changed.add(name)

    def _forget_written(self) -> None:
        """Keeps the two newest files: uploads still complete their lines."""
        for name in list(self._files)[:-1]:
            if not any(name in changed for changed in self._changed):
                del self._files[name]

    def _write(self, tier: int, now: bool = False) -> None:
        with self._writing[tier]:
            if not now and time.monotonic() < self._rests_until[tier]:
                return
            store = self._tiers.stores[tier]
            while (taken := self._take_changed(tier)) is not None:
                name, lines = taken
                # Before the try, so that a store that fails is not asked at every checkpoint.
                secs = max(1.0, len(lines) / _REPORTS_PER_SEC)
                self._rests_until[tier] = time.monotonic() + secs
                try:
                    _write_file(store, name, b"".join(lines))
                except BaseException:
                    with self._mutex:
                        if name in self._files:
                            self._changed[tier].add(name)
                    raise
                if store is self._tiers.local:
                    self._delete_oldest(store)

    def _take_changed(self, tier: int) -> tuple[str, list[bytes]] | None:
        with self._mutex:
            if not self._changed[tier]:
                return None
            name = min(self._changed[tier])
            self._changed[tier].remove(name)
            return name, [line.encoded for line in self._files[name].values()]

    def _delete_oldest(self, store: CheckpointStore) -> None:
        """Bounds what a buffer holds; the directory keeps all."""
        with self._mutex:
            own = set(self._files)
        for name in history_files(store)[:-_FILES_IN_BUFFER]:
            if name not in own:
                files.delete_file(store.path(name))


def _is_completed_by(report: SaveReport, known: SaveReport) -> bool:
    """Tells whether what is known of the same checkpoint has its upload, and the report has not."""
    return (
        report.wall_time == known.wall_time
        and report.seconds_to_uploaded is None
        and known.seconds_to_uploaded is not None
    )


def _write_file(store: CheckpointStore, name: str, data: bytes) -> None:
    try:
        files.write_durably(store.path(name), data)
    except errors.StorageNotFoundError:
        # The first one, or a person has deleted them all.
        files.make_dirs(store.path(HISTORY_DIR))
        files.write_durably(store.path(name), data)
