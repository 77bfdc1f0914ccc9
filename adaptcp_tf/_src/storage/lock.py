# SPDX-License-Identifier: Apache-2.0
"""The lock file that keeps a second writer out of a checkpoint directory."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import re
import threading
import time
import uuid
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files, kernel_lock, local_files
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.storage.process import ProcessIdentity, current_process, is_running

LOCK_NAME = "adaptcp.lock"

_LEFTOVER = re.compile(re.escape(LOCK_NAME) + r"\.tmp-[0-9a-f]{8}")
# How long a lock whose holder is dead may stay locked in the kernel (by a child that the holder
# forked, or by another process that takes over at this moment) before it is replaced all the same.
_ORPHAN_WAIT_SECS = 2.0
_GIVE_UP_SECS = 10.0

# Two managers of one process must not both read "free" on a store without atomic creation.
_acquiring = threading.Lock()


@dataclasses.dataclass(frozen=True)
class LockHolder:
    """The content of a lock file.

    Attributes:
        owner: a random id of the lock object; two locks of one process differ in it.
        process: the process that holds the lock.
        kernel_locked: whether that process also locks the file in the kernel while it lives.
        wall_time: when the lock was taken, in seconds since the epoch.
    """

    owner: str
    process: ProcessIdentity
    kernel_locked: bool
    wall_time: float

    def encode(self) -> bytes:
        """Returns the bytes of the lock file."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> LockHolder | None:
        """Returns the holder that a lock file names, or None if it cannot be understood."""
        try:
            fields: Any = json.loads(data)
            holder = cls(process=ProcessIdentity(**fields.pop("process")), **fields)
            holder.taken_at()
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return None
        # Signal 0 to a pid of 0 or less would ask about a whole group of processes.
        return holder if type(holder.process.pid) is int and holder.process.pid > 0 else None

    def taken_at(self) -> str:
        """Returns the time the lock was taken, for people to read."""
        moment = datetime.datetime.fromtimestamp(self.wall_time, datetime.timezone.utc)
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


class DirectoryLock:
    """Ownership of a checkpoint directory, as a file `adaptcp.lock` in it.

    A holder that was killed is noticed at once on its own host (its process is gone, or the kernel
    gave its lock back), so a restarted trainer need not wait. A holder on another host cannot be
    examined: then the lock is refused, unless it is stolen. All methods may be called from any
    thread.

    Example:
        >>> with DirectoryLock(directory) as lock:
        ...     lock.check()

    Args:
        directory: the checkpoint directory, a path or URI; it is created if missing.
    """

    def __init__(self, directory: files.PathLike):
        self._directory = files.normalize(directory)
        self._path = files.join(self._directory, LOCK_NAME)
        self._mutex = threading.RLock()
        self._holder: LockHolder | None = None
        self._descriptor: int | None = None

    @property
    def directory(self) -> str:
        """The directory this lock is for."""
        return self._directory

    @property
    def held(self) -> bool:
        """Whether this object took the lock and did not give it back; `check` asks the disk."""
        return self._holder is not None

    def acquire(self, *, steal: bool = False) -> DirectoryLock:
        """Takes the lock; does nothing if this object holds it already.

        Example:
            >>> lock = DirectoryLock(directory).acquire()
            >>> lock.release()

        Args:
            steal: take it even from a holder that may still live. That holder finds out at its
                next `check`.

        Returns:
            This object.

        Raises:
            DirectoryLockedError: if somebody else holds the lock and is, or may be, alive.
            StorageError: if the lock file could not be read or written.
        """
        with self._mutex, _acquiring:
            if self._holder is not None:
                return self
            files.make_dirs(self._directory)
            if files.is_local(self._directory):
                with translated("lock", self._path):
                    self._acquire_local(steal)
                self._remove_leftovers()
            else:
                self._acquire_remote(steal)
            return self

    def release(self) -> None:
        """Gives the lock back; deletes the file only if it is still this object's.

        Example:
            >>> lock = DirectoryLock(directory).acquire()
            >>> lock.release()
            >>> lock.held
            False

        Raises:
            StorageError: if the lock file could not be read or deleted.
        """
        with self._mutex:
            holder, self._holder = self._holder, None
            descriptor, self._descriptor = self._descriptor, None
            try:
                # A forked child inherits the object but not the ownership.
                owned = holder is not None and holder.process.pid == os.getpid()
                if owned and self._on_disk() == holder:
                    files.delete_file(self._path)
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    def check(self) -> None:
        """Verifies that the lock is still this object's; call it before anything is committed.

        Example:
            >>> with DirectoryLock(directory) as lock:
            ...     lock.check()

        Raises:
            DirectoryLockedError: if it was never taken, was released, deleted or stolen.
            StorageError: if the lock file could not be read.
        """
        with self._mutex:
            if self._holder is None:
                raise errors.DirectoryLockedError(
                    f"The lock of {self._directory!r} is not held. Call acquire() first.",
                    directory=self._directory,
                )
            found = self._on_disk()
            if found != self._holder:
                raise self._refusal(
                    found, f"Lost the lock of {self._directory!r}, nothing more is written to it"
                )

    def __enter__(self) -> DirectoryLock:
        return self.acquire()

    def __exit__(self, *unused) -> None:
        self.release()

    def _acquire_local(self, steal: bool) -> None:
        start = time.monotonic()
        while time.monotonic() < start + _GIVE_UP_SECS:
            # A file that vanishes between two steps was released or replaced: look again.
            with contextlib.suppress(FileNotFoundError):
                descriptor = kernel_lock.open_existing(self._path)
                if descriptor is None:
                    if self._publish(None):
                        return
                    continue
                try:
                    if self._take_over(descriptor, steal, start + _ORPHAN_WAIT_SECS):
                        return
                finally:
                    os.close(descriptor)
            time.sleep(0.01)
        raise errors.DirectoryLockedError(
            f"Cannot lock {self._directory!r}: the lock file {self._path!r} keeps changing. "
            "Make sure that only one trainer is started on this directory.",
            directory=self._directory,
        )

    def _take_over(self, descriptor: int, steal: bool, orphan_deadline: float) -> bool:
        """Replaces the lock file that `descriptor` has open, if its holder is dead.

        Returns whether the lock is now this object's; False says to look again.
        """
        free = kernel_lock.try_lock(descriptor)
        found = LockHolder.decode(local_files.read_bytes(self._path))
        if not steal and not _is_abandoned(found, free):
            raise self._refusal(found, f"Cannot lock {self._directory!r}")
        if free is False and not steal and time.monotonic() < orphan_deadline:
            return False
        # Refused if the file was replaced meanwhile. With `free` True none else can replace it.
        return self._publish(descriptor)

    def _publish(self, replaced: int | None) -> bool:
        temporary = local_files.temporary_name(self._path)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        published = False
        try:
            holder = _new_holder(kernel_lock.try_lock(descriptor) is True)
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(holder.encode())
            published = kernel_lock.publish(descriptor, temporary, self._path, replaced)
        finally:
            if not published:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        if published:
            self._holder, self._descriptor = holder, descriptor
        return published

    def _remove_leftovers(self) -> None:
        """Deletes the temporary files of processes that were killed while taking the lock."""
        # The lock is held by now; what cannot be tidied up must not take it away again.
        with contextlib.suppress(errors.StorageError):
            for name in files.list_dir(self._directory):
                if _LEFTOVER.fullmatch(name):
                    files.delete_file(files.join(self._directory, name))

    def _acquire_remote(self, steal: bool) -> None:
        if not steal and files.exists(self._path):
            found = self._on_disk()
            if not _is_abandoned(found, None):
                raise self._refusal(found, f"Cannot lock {self._directory!r}")
        holder = _new_holder(False)
        files.write_durably(self._path, holder.encode())
        # Stores without atomic creation: whoever wrote last has it, the others see that here.
        found = self._on_disk()
        if found != holder:
            raise self._refusal(found, f"Cannot lock {self._directory!r}")
        self._holder = holder

    def _on_disk(self) -> LockHolder | None:
        """Returns whom the lock file names; None if it is missing or not readable."""
        try:
            return LockHolder.decode(files.read_bytes(self._path))
        except errors.StorageNotFoundError:
            return None

    def _refusal(self, found: LockHolder | None, what: str) -> errors.DirectoryLockedError:
        if found is None:
            return errors.DirectoryLockedError(
                f"{what}: {self._path!r} is missing or not a lock file of adaptcp_tf. Make sure "
                "that no other trainer uses this directory, then delete that file if it exists "
                "(or steal the lock) and start again.",
                directory=self._directory,
            )
        mine = found.process == current_process()
        who = "another manager of this process" if mine else f"process {found.process.pid}"
        remedy = "close that manager" if mine else "stop that process"
        message = (
            f"{what}: {who} on host {found.process.host!r} holds it since "
            f"{found.taken_at()}. Two writers would damage each other's checkpoints: "
            f"{remedy} or choose another directory. If you are sure that it no longer writes, "
            f"delete {self._path!r} (or steal the lock)."
        )
        return errors.DirectoryLockedError(
            message,
            directory=self._directory,
            host=found.process.host,
            pid=found.process.pid,
        )


def _new_holder(kernel_locked: bool) -> LockHolder:
    return LockHolder(
        owner=uuid.uuid4().hex,
        process=current_process(),
        kernel_locked=kernel_locked,
        wall_time=time.time(),
    )


def _is_abandoned(holder: LockHolder | None, free: bool | None) -> bool:
    """Tells whether the holder of a lock is certainly dead.

    Args:
        holder: who wrote the lock file; None if it is not readable.
        free: whether the kernel would lock the file for us; None if it cannot tell.
    """
    if holder is None:
        return False
    process, me = holder.process, current_process()
    same_kernel = process.boot_id == me.boot_id != ""
    if same_kernel and process.pid_namespace == me.pid_namespace:
        return not is_running(process)
    if same_kernel:
        # A container that was killed and started again: its pids mean nothing here.
        return holder.kernel_locked and free is True
    # This host was booted since, which ended every process it had.
    return process.host == me.host and free is not False
