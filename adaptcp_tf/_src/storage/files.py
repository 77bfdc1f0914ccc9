# SPDX-License-Identifier: Apache-2.0
"""The one door through which Python touches the files of a checkpoint, on any file system."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Union

from adaptcp_tf import errors
from adaptcp_tf._src.storage import local_files, remote_files
from adaptcp_tf._src.storage.failures import translated

PathLike = Union[str, "os.PathLike[str]"]

# The same grammar as TensorFlow's own ParseURI.
_SCHEME = re.compile(r"([a-zA-Z][0-9a-zA-Z.]*)://")


def normalize(path: PathLike) -> str:
    """Returns the one spelling of a path that the rest of the package uses.

    Example:
        >>> normalize("file:///data/run 1/")
        '/data/run 1'
        >>> normalize("gs://bucket/run1/")
        'gs://bucket/run1'

    Args:
        path: a local path, absolute or relative to the current directory, or a URI.

    Returns:
        An absolute local path without scheme, or the URI; neither ends with a slash.

    Raises:
        InvalidOptionError: if the path is empty or not text.
    """
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not text or not isinstance(text, str):
        raise errors.InvalidOptionError(
            f"Invalid value for a path. Received: {path!r}. Expected: a non-empty string, for "
            "example '/data/run1' or 's3://bucket/run1'."
        )
    if is_local(text):
        return os.path.abspath(text[len("file://") :] if text.startswith("file://") else text)
    scheme, rest = text.split("://", 1)
    return f"{scheme}://{rest.rstrip('/')}"


def is_local(path: str) -> bool:
    """Tells whether a path is on a disk that the operating system mounts.

    Example:
        >>> is_local("/data/run1"), is_local("s3://bucket/run1")
        (True, False)

    Args:
        path: a path or URI.

    Returns:
        True for paths without a scheme and for `file://`.
    """
    match = _SCHEME.match(path)
    return match is None or match.group(1) == "file"


def writes_atomically(path: str) -> bool:
    """Tells whether a store shows a file only when all of it is there.

    Example:
        >>> writes_atomically("s3://bucket/run1"), writes_atomically("/data/run1")
        (True, False)

    Args:
        path: a path or URI.

    Returns:
        True for object stores.
    """
    return not is_local(path) and remote_files.is_object_store(path)


def join(directory: str, *names: str) -> str:
    """Joins a directory and names below it with slashes, whatever the file system.

    Example:
        >>> join("s3://bucket/run1", "segments", "a")
        's3://bucket/run1/segments/a'

    Args:
        directory: a path or URI.
        *names: relative paths below it.

    Returns:
        The joined path.
    """
    return "/".join([directory.rstrip("/"), *names])


def _backend(path: str) -> ModuleType:
    return local_files if is_local(path) else remote_files


def read_bytes(path: str) -> bytes:
    """Reads a whole file.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> read_bytes(join(directory, "note"))
        b'hello'

    Args:
        path: the file.

    Returns:
        Its content.

    Raises:
        StorageNotFoundError: if there is no such file.
        StorageError: for every other failure, see `failures.translated`.
    """
    path = normalize(path)
    with translated("read", path):
        return _backend(path).read_bytes(path)


def read_range(path: str, offset: int, length: int) -> bytes:
    """Reads a part of a file.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> read_range(join(directory, "note"), 1, 3)
        b'ell'

    Args:
        path: the file.
        offset: where to begin, in bytes.
        length: how many bytes.

    Returns:
        The bytes; fewer where the file ends.

    Raises:
        StorageNotFoundError: if there is no such file.
        StorageError: for every other failure, see `failures.translated`.
    """
    path = normalize(path)
    with translated(f"read {length} bytes at {offset} of", path):
        return _backend(path).read_range(path, offset, length)


def write_durably(path: str, data: bytes) -> None:
    """Writes a file atomically and durably.

    Locally: a temporary name in the same directory, fsync, rename, fsync of the directory. On an
    object store: one PUT. On other file systems: a temporary name and a rename. Whoever reads the
    file, also after SIGKILL or power loss, sees all of the old bytes or all of the new ones.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")

    Args:
        path: the file; its directory must exist.
        data: its new content.

    Raises:
        StorageFullError: if the disk is full; the old content is still there.
        StorageError: for every other failure, see `failures.translated`.
    """
    path = normalize(path)
    with translated(f"write {len(data)} bytes to", path):
        _backend(path).write_durably(path, data)


def list_dir(path: str) -> list[str]:
    """Lists a directory.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> list_dir(directory)
        ['note']

    Args:
        path: the directory.

    Returns:
        The names in it, sorted, files and directories alike.

    Raises:
        StorageNotFoundError: if there is no such directory.
        StorageError: for every other failure, see `failures.translated`.
    """
    path = normalize(path)
    with translated("list", path):
        return sorted(_backend(path).list_dir(path))


def exists(path: str) -> bool:
    """Tells whether a file or directory exists.

    Example:
        >>> exists(join(directory, "nothing"))
        False

    Args:
        path: the file or directory.

    Returns:
        Whether it exists; False only when the storage said so.

    Raises:
        StorageError: if the storage could not tell.
    """
    path = normalize(path)
    with translated("look up", path):
        return _backend(path).exists(path)


def size(path: str) -> int:
    """Returns the size of a file.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> size(join(directory, "note"))
        5

    Args:
        path: the file.

    Returns:
        Its size in bytes.

    Raises:
        StorageNotFoundError: if there is no such file.
        StorageError: for every other failure, see `failures.translated`.
    """
    path = normalize(path)
    with translated("get the size of", path):
        return _backend(path).size(path)


def make_dirs(path: str) -> None:
    """Creates a directory and its missing parents, durably; one that exists is fine.

    Example:
        >>> make_dirs(join(directory, "a", "b"))
        >>> exists(join(directory, "a", "b"))
        True

    Args:
        path: the directory.

    Raises:
        StorageError: among others if a parent is a file; the message names it.
    """
    path = normalize(path)
    with translated("create directory", path):
        _backend(path).make_dirs(path)


def delete_file(path: str) -> bool:
    """Deletes one file; one that is missing is fine.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> delete_file(join(directory, "note")), delete_file(join(directory, "note"))
        (True, False)

    Args:
        path: the file.

    Returns:
        Whether it was there.

    Raises:
        StorageError: if it could not be deleted.
    """
    path = normalize(path)
    with translated("delete", path):
        return _backend(path).delete_file(path)


def delete_dir_if_empty(path: str) -> bool:
    """Deletes a directory unless something is in it; one that is missing is fine.

    Example:
        >>> make_dirs(join(directory, "a"))
        >>> delete_dir_if_empty(join(directory, "a"))
        True

    Args:
        path: the directory.

    Returns:
        Whether it is gone.

    Raises:
        StorageError: if the storage refused for any other reason than its being full.
    """
    path = normalize(path)
    with translated("delete directory", path):
        return _backend(path).delete_dir_if_empty(path)


def move_dir(path: str, target: str, last: str) -> None:
    """Gives a directory of finished files the name under which others look for it.

    On a local disk all files appear at one instant. Elsewhere they appear one after the other, each
    of them whole, `last` as the last one.

    Example:
        >>> make_dirs(join(directory, "staging"))
        >>> write_durably(join(directory, "staging", "note"), b"hello")
        >>> move_dir(join(directory, "staging"), join(directory, "done"), last="note")
        >>> list_dir(directory)
        ['done']

    Args:
        path: the directory; no directories in it.
        target: its new name, of the same file system; must not exist, or be empty.
        last: name of a file in it.

    Raises:
        StorageError: among others if `target` is not empty.
    """
    path, target = normalize(path), normalize(target)
    with translated(f"move {path!r} to", target):
        _backend(path).move_dir(path, target, last)


@contextlib.contextmanager
def written_elsewhere(path: str) -> Iterator[str]:
    """Gives code that can write to local disks only a directory for files that belong into `path`.

    That is `path` itself when it is local, otherwise a temporary directory, whose files are copied in
    the end.

    Example:
        >>> with written_elsewhere(directory) as local:
        ...     write_durably(join(local, "note"), b"hello")
        >>> read_bytes(join(directory, "note"))
        b'hello'

    Args:
        path: an existing directory.

    Returns:
        A context manager, of a local directory.

    Raises:
        StorageError: if a file could not be copied.
    """
    path = normalize(path)
    if is_local(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="adaptcp-") as local:
        yield local
        for name in list_dir(local):
            target = join(path, name)
            with translated("write", target):
                remote_files.copy(join(local, name), target)


def sync_file(path: str) -> None:
    """Makes the bytes of a file that other code wrote survive a power loss.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> sync_file(join(directory, "note"))

    Args:
        path: the file; on anything but a local disk this does nothing.

    Raises:
        StorageError: if the disk refused.
    """
    path = normalize(path)
    with translated("synchronise", path):
        _backend(path).sync_file(path)


def sync_dir(path: str) -> None:
    """Makes names created in or deleted from a directory survive a power loss.

    Example:
        >>> sync_dir(directory)

    Args:
        path: the directory; on anything but a local disk this does nothing.

    Raises:
        StorageError: if the disk refused.
    """
    path = normalize(path)
    with translated("synchronise directory", path):
        _backend(path).sync_dir(path)
