# SPDX-License-Identifier: Apache-2.0
"""Trees of files that other code writes, on local disks only, and that appear when complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files, local_files, remote_files
from adaptcp_tf._src.storage.failures import translated


@contextlib.contextmanager
def new_tree(path: files.PathLike, last: str) -> Iterator[str]:
    """Gives a local directory to write into, and makes its files appear under `path`.

    On a local disk all files appear at one instant. Elsewhere they appear one after the other, `last`
    as the last one. When the body raises, or a file cannot be copied, nothing is left.

    Example:
        >>> with new_tree(join(directory, "model"), last="saved_model.pb") as tree:
        ...     write_durably(join(tree, "saved_model.pb"), b"hello")
        >>> list_dir(join(directory, "model"))
        ['saved_model.pb']

    Args:
        path: the directory; it must not exist, or be empty.
        last: the file, relative to `path`, that tells that all are there.

    Returns:
        A context manager, of a local directory.

    Raises:
        StorageError: a file could not be written or copied; among others if `path` is not empty.
    """
    path = files.normalize(path)
    if files.is_local(path):
        with _local_tree(path) as tree:
            yield tree
        return
    with tempfile.TemporaryDirectory(prefix="adaptcp-") as tree:
        yield tree
        _copy(tree, path, last)


@contextlib.contextmanager
def _local_tree(path: str) -> Iterator[str]:
    tree = local_files.temporary_name(path)
    files.make_dirs(tree)
    try:
        yield tree
        for directory, _, names in os.walk(tree):
            for name in names:
                files.sync_file(os.path.join(directory, name))
            files.sync_dir(directory)
        with translated(f"move {tree!r} to", path):
            os.rename(tree, path)
        files.sync_dir(os.path.dirname(path))
    except BaseException:
        shutil.rmtree(tree, ignore_errors=True)
        raise


def files_below(path: files.PathLike) -> list[str]:
    """Lists a tree of files.

    Example:
        >>> make_dirs(join(directory, "a"))
        >>> write_durably(join(directory, "a", "note"), b"hello")
        >>> files_below(directory)
        ['a/note']

    Args:
        path: a directory.

    Returns:
        The files in it and in all directories below, relative to `path`, sorted.

    Raises:
        StorageError: it could not be listed.
    """
    path = files.normalize(path)
    with translated("list", path):
        return sorted(
            files.join(directory, name)[len(path) + 1 :]
            for directory, _, names in remote_files.walk(path)
            for name in names
        )


def copy_file(source: str, target: str) -> None:
    """Copies a file, and makes the directory for it.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> copy_file(join(directory, "note"), join(directory, "a", "note"))
        >>> read_bytes(join(directory, "a", "note"))
        b'hello'

    Args:
        source: the file.
        target: what becomes its copy.

    Raises:
        StorageError: it could not be read or written.
    """
    files.make_dirs(target.rsplit("/", 1)[0])
    with translated("write", target):
        remote_files.copy(source, target)


def delete_tree(path: files.PathLike) -> None:
    """Deletes a directory and all that is in it.

    Example:
        >>> write_durably(join(directory, "note"), b"hello")
        >>> delete_tree(directory)
        >>> exists(directory)
        False

    Args:
        path: the directory.

    Raises:
        StorageError: something could not be deleted.
    """
    path = files.normalize(path)
    with translated("delete", path):
        remote_files.delete_tree(path)


def append(path: str, data: bytes) -> None:
    """Appends to a local file, which is made when it is not there; not durable.

    Example:
        >>> append(join(directory, "note"), b"hel")
        >>> append(join(directory, "note"), b"lo")
        >>> read_bytes(join(directory, "note"))
        b'hello'

    Args:
        path: the file; local.
        data: what to append.

    Raises:
        StorageError: it could not be written.
    """
    with translated(f"append {len(data)} bytes to", path), open(path, "ab") as file:
        file.write(data)


def _copy(tree: str, path: str, last: str) -> None:
    copied = []
    try:
        for name in sorted(files_below(tree), key=lambda name: (name == last, name)):
            copied.append(files.join(path, name))
            copy_file(files.join(tree, name), copied[-1])
    except BaseException:
        for target in copied:
            # What cannot be deleted either must not hide why the copy failed.
            with contextlib.suppress(errors.StorageError):
                files.delete_file(target)
        raise
