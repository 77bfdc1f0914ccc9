# SPDX-License-Identifier: Apache-2.0
"""File operations on local disks, with the fsync calls that make them survive a power loss."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat

# Some file systems (FUSE, network mounts) know no fsync of directories; there it is the server
# that orders the operations.
_NO_DIRECTORY_FSYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def temporary_name(path: str) -> str:
    """Returns a new name beside `path`, recognised as temporary by retention."""
    return f"{path}.tmp-{secrets.token_hex(4)}"


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    with open(path, "rb") as file:
        return file.read()


def read_range(path: str, offset: int, length: int) -> bytes:
    """Returns a part of a file."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def write_durably(path: str, data: bytes) -> None:
    """Replaces a file atomically: after a crash it holds the old bytes or the new, never a mix."""
    temporary = temporary_name(path)
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_dir(os.path.dirname(path))


def list_dir(path: str) -> list[str]:
    """Returns the names in a directory."""
    return os.listdir(path)


def exists(path: str) -> bool:
    """Tells whether a file or directory exists; unlike os.path.exists it hides no failure."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return status.st_size


def make_dirs(path: str) -> None:
    """Creates a directory and its parents; the new names survive a power loss."""
    missing = []
    parent = path
    while not exists(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    os.makedirs(path, exist_ok=True)
    for created in missing:
        sync_dir(os.path.dirname(created))


def delete_file(path: str) -> bool:
    """Deletes a file; returns whether it was there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def delete_dir_if_empty(path: str) -> bool:
    """Deletes a directory unless something is in it; returns whether it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def move_dir(path: str, target: str, last: str) -> None:
    """Renames a directory; the new name survives a power loss."""
    del last  # all files appear at once
    sync_dir(path)
    os.rename(path, target)
    sync_dir(os.path.dirname(target))


def sync_file(path: str) -> None:
    """Makes the bytes of a file survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_dir(path: str) -> None:
    """Makes the names in a directory survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_FSYNC:
            raise
    finally:
        os.close(descriptor)
