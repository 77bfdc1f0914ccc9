# SPDX-License-Identifier: Apache-2.0
"""The room in the SSD buffer: what is in it, what may go, and who waits for it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.storage import files

logger = logging.getLogger("adaptcp_tf")

_WARN_SECS = 30.0


class LocalBuffer:
    """Counts the files of the first tier and deletes those that the second one has.

    Files are deleted in the order they were written in, and only when their room is needed, so that
    a restart finds as much as possible on the local disk. Thread-safe.

    Args:
        store: the first tier; it is locked by this process.
        limit_bytes: how large its files may be together; None sets no limit.
    """

    def __init__(self, store: CheckpointStore, limit_bytes: int | None):
        self._store = store
        self._limit = limit_bytes
        self._changed = threading.Condition()
        self._sizes: dict[str, int] = {}
        self._uploaded: set[str] = set()
        # Of no use to anybody, though the directory does not have them.
        self._expendable: set[str] = set()
        self._reserved = 0
        self._largest = 0
        self._holds = 0
        for attempt in store.attempt_dirs():
            for name in store.list_dir(attempt):
                path = f"{attempt}/{name}"
                self._sizes[path] = files.size(store.path(path))

    @property
    def bytes(self) -> int:
        """How large its files are together, with those being written."""
        with self._changed:
            return self._used()

    def is_uploaded(self, path: str) -> bool:
        """Whether the directory is known to have a file, of a path relative to it."""
        with self._changed:
            return path in self._uploaded

    def elsewhere(self, paths: Mapping[str, int]) -> set[str]:
        """Those files that are in the directory and not here."""
        with self._changed:
            return {p for p in paths if p in self._uploaded and p not in self._sizes}

    def fits(self, size: int) -> bool:
        """Whether so many bytes fit in when all else is gone."""
        return self._limit is None or size <= self._limit

    def reserve(
        self, size: int, *, may_wait: Callable[[], bool], give_up_old: Callable[[], None]
    ) -> float:
        """Makes room for files that are about to be written, and waits for it if it must.

        Args:
            size: their bytes, at most; `fits` is true of them.
            may_wait: whether uploads are under way that will make room.
            give_up_old: deletes checkpoints that are only here, if the directory has newer ones.

        Returns:
            How many seconds it waited.

        Raises:
            StorageFullError: there is no room, and nobody to wait for.
        """
        start = warned_at = time.monotonic()
        waited = False
        with self._changed:
            self._largest = max(self._largest, size)
            while not self._make_room(size):
                # Asked in this order: an upload that ends meanwhile makes room.
                waiting = may_wait()
                give_up_old()
                if self._make_room(size):
                    break
                if not waiting:
                    raise errors.StorageFullError(
                        f"The buffer {self._store.directory!r} is full. Received: {self._used()} "
                        f"bytes of files that are not uploaded, and {size} bytes to save. Expected: "
                        f"local_bytes={self._limit} at most. See why uploads fail, or raise "
                        "local_bytes.",
                        path=self._store.directory,
                    )
                if not waited or time.monotonic() - warned_at >= _WARN_SECS:
                    warned_at = time.monotonic()
                    logger.warning(
                        "training waits: the buffer %r is full of files that are not uploaded yet "
                        "(%.1f of %.1f MB, %.1f MB are to be saved). Storage is slower than "
                        "training; save less often or raise local_bytes",
                        self._store.directory,
                        self._used() / 1e6,
                        self._limit / 1e6,
                        size / 1e6,
                    )
                waited = True
                self._changed.wait(timeout=1.0)
            self._reserved += size
        return time.monotonic() - start if waited else 0.0

    def settle(self, reserved: int, written: Mapping[str, int]) -> None:
        """Replaces a reservation by the files that were written; none if they were given up."""
        with self._changed:
            self._reserved -= reserved
            self._sizes.update(written)
            self._changed.notify_all()

    def add_uploaded(self, paths: Mapping[str, int]) -> None:
        """Tells that the directory has these files, and will keep them while they are needed."""
        with self._changed:
            self._uploaded.update(paths)
            # Before somebody waits for it; the next checkpoint may be as large as any.
            self._make_room(self._largest)
            self._changed.notify_all()

    def forget(self, deleted: list[str] | tuple[str, ...]) -> None:
        """Tells that files were deleted here."""
        with self._changed:
            for path in deleted:
                self._sizes.pop(path, None)
            self._changed.notify_all()

    def write_off(self, paths: Iterable[str]) -> None:
        """Tells that nobody needs these files, whether they are uploaded or not."""
        with self._changed:
            self._expendable.update(paths)
            self._changed.notify_all()

    def drop_unless(self, needed: set[str]) -> None:
        """Deletes every file here that is not among these, relative to the directory."""
        with self._changed:
            for path in sorted(set(self._sizes) - needed):
                if not self._holds and self._delete(path):
                    del self._sizes[path]

    def forget_uploaded(self, deleted: list[str] | tuple[str, ...]) -> None:
        """Tells that files were deleted in the directory."""
        with self._changed:
            self._uploaded.difference_update(deleted)

    def wake(self) -> None:
        """Has whoever waits look again."""
        with self._changed:
            self._changed.notify_all()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Deletes nothing meanwhile, for a restore that reads from here."""
        with self._changed:
            self._holds += 1
        try:
            yield
        finally:
            with self._changed:
                self._holds -= 1
                self._changed.notify_all()

    def _used(self) -> int:
        return sum(self._sizes.values()) + self._reserved

    def _make_room(self, size: int) -> bool:
        """Deletes uploaded files, the oldest first, until so many bytes fit in; tells whether."""
        if self._limit is None:
            return True
        excess = self._used() + size - self._limit
        # By name, which begins with the step.
        may_go = self._uploaded | self._expendable if excess > 0 and not self._holds else set()
        for path in sorted(may_go & self._sizes.keys()):
            if excess <= 0:
                break
            if self._delete(path):
                excess -= self._sizes.pop(path)
        return excess <= 0

    def _delete(self, path: str) -> bool:
        try:
            files.delete_file(self._store.path(path))
            files.delete_dir_if_empty(self._store.path(path.rsplit("/", 1)[0]))
        except errors.StorageError as error:
            logger.warning("a file that is uploaded could not be deleted: %s", error)
            return False
        return True
