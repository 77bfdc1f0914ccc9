# SPDX-License-Identifier: Apache-2.0
"""A lock that the kernel drops when its process dies, on the file that is the directory's lock."""

from __future__ import annotations

import errno
import fcntl
import os

from adaptcp_tf._src.storage import local_files

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


def try_lock(descriptor: int) -> bool | None:
    """Tries to lock an open file against other processes, without waiting.

    Args:
        descriptor: the open file; closing it gives the lock back.

    Returns:
        True if this process holds it now, False if another open file does, None if the file
        system has no such locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def open_existing(path: str) -> int | None:
    """Opens a file for `try_lock`; returns None if there is no such file."""
    try:
        return os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None


def _is_current(descriptor: int, path: str) -> bool:
    """Tells whether an open file is still the one that its path leads to."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def publish(descriptor: int, temporary: str, path: str, replaced: int | None) -> bool:
    """Gives a complete temporary file its final name, durably.

    Args:
        descriptor: the temporary file, open.
        temporary: its name now.
        path: its name to be.
        replaced: the open file that may lose that name to it; None if the name must be free.

    Returns:
        Whether it has the name now; False if another file was given the name meanwhile.
    """
    os.fsync(descriptor)
    if replaced is None:
        if not _link(temporary, path):
            return False
    else:
        if not _is_current(replaced, path):
            return False
        os.replace(temporary, path)
    local_files.sync_dir(os.path.dirname(path))
    return True


def _link(temporary: str, path: str) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        os.rename(temporary, path)
    else:
        os.unlink(temporary)
    return True
