# SPDX-License-Identifier: Apache-2.0
"""File operations on every TensorFlow file system that is not the local disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from adaptcp_tf._src.storage import local_files

# Writing an object is atomic there, and a rename would only copy it once more.
_OBJECT_STORES = ("gs", "s3", "az", "oss")
_LIST_ATTEMPTS = 3
# Their file system in TensorFlow says "not found" also when the store did not answer. Only what it
# lists can be believed.
_BELIEVED_WHEN_LISTING = ("s3",)


def is_object_store(path: str) -> bool:
    """Tells whether a file there is one object, which a PUT makes or replaces."""
    return _scheme(path) in _OBJECT_STORES


def _tf():
    # Imported on first use: tools that read a local directory start without loading TensorFlow.
    import tensorflow as tf

    return tf


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    with _truly_not_found(path), _tf().io.gfile.GFile(path, "rb") as file:
        return file.read()


def read_range(path: str, offset: int, length: int) -> bytes:
    """Returns a part of a file."""
    with _truly_not_found(path), _tf().io.gfile.GFile(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def write_durably(path: str, data: bytes) -> None:
    """Replaces a file as atomically as the store can: one PUT, or a temporary file and a rename."""
    if is_object_store(path):
        _write(path, data)
        return
    temporary = local_files.temporary_name(path)
    try:
        _write(temporary, data)
        _tf().io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(_tf().errors.OpError):
            _tf().io.gfile.remove(temporary)
        raise


def _write(path: str, data: bytes) -> None:
    with _tf().io.gfile.GFile(path, "wb") as file:
        file.write(data)


def list_dir(path: str) -> list[str]:
    """Returns the names in a directory."""
    tf = _tf()
    if _scheme(path) in _BELIEVED_WHEN_LISTING:
        names = _children(path)
        if not names and not _is_listed(path):
            raise tf.errors.NotFoundError(None, None, f"Directory {path} does not exist")
        # Left with no name in it: an empty object called "path/" stands for the directory.
        if not names:
            _check_is_directory(path)
        return names
    for _ in range(_LIST_ATTEMPTS):
        try:
            # Object stores mark "directories" with a trailing slash.
            return [name.rstrip("/") for name in tf.io.gfile.listdir(path)]
        except tf.errors.NotFoundError:
            # TensorFlow says so too when the store did not answer whether this is a directory. Who
            # believes it takes a store that is down for an empty one: ask again, in a way that
            # tells the two apart.
            _check_is_directory(path)
    raise tf.errors.UnavailableError(
        None, None, f"{path} is there, but could not be listed {_LIST_ATTEMPTS} times"
    )


def exists(path: str) -> bool:
    """Tells whether a file or directory exists."""
    if _tf().io.gfile.exists(path):
        return True
    return _scheme(path) in _BELIEVED_WHEN_LISTING and _is_listed(path)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    with _truly_not_found(path):
        return _tf().io.gfile.stat(path).length


def make_dirs(path: str) -> None:
    """Creates a directory and its parents."""
    _tf().io.gfile.makedirs(path)


def delete_file(path: str) -> bool:
    """Deletes a file; returns whether it was there."""
    try:
        _tf().io.gfile.remove(path)
    except _tf().errors.NotFoundError:
        return False
    return True


def delete_dir_if_empty(path: str) -> bool:
    """Deletes a directory unless something is in it; returns whether it is gone."""
    try:
        if list_dir(path):
            return False
        _tf().io.gfile.rmtree(path)
    except _tf().errors.NotFoundError:
        pass
    return True


def copy(source: str, target: str) -> None:
    """Copies a file, from and to any file system."""
    _tf().io.gfile.copy(source, target, overwrite=True)


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields each directory of a tree, with the names of directories and files in it."""
    for directory, directories, names in _tf().io.gfile.walk(path):
        yield directory.rstrip("/"), directories, names


def delete_tree(path: str) -> None:
    """Deletes a directory and all that is in it."""
    _tf().io.gfile.rmtree(path)


def move_dir(path: str, target: str, last: str) -> None:
    """Renames the files of a directory one by one, since object stores cannot rename those."""
    gfile = _tf().io.gfile
    make_dirs(target)
    for name in sorted(list_dir(path), key=lambda name: (name == last, name)):
        gfile.rename(f"{path}/{name}", f"{target}/{name}")
    delete_dir_if_empty(path)


def sync_file(path: str) -> None:
    """Does nothing: a closed file is as durable as the store makes it."""


def sync_dir(path: str) -> None:
    """Does nothing: these stores have no directory to synchronise."""


def _scheme(path: str) -> str:
    return path.split("://", 1)[0]


def _check_is_directory(path: str) -> None:
    tf = _tf()
    if not tf.io.gfile.stat(path).is_directory:
        raise tf.errors.FailedPreconditionError(
            None, None, f"{path} is a file where a directory is needed"
        )


def _children(path: str) -> list[str]:
    """Returns the names in a directory, none if there is no such; one request a thousand."""
    # The public listdir looks the directory up first, which gives the answer not to be believed.
    from tensorflow.python.lib.io import _pywrap_file_io

    # Without the slash the name of a bucket alone would be refused.
    return [name.rstrip("/") for name in _pywrap_file_io.GetChildren(f"{path}/")]


def _is_listed(path: str) -> bool:
    """Tells whether a file or directory is there, by the listing of what it is in."""
    parent, _, name = path.rpartition("/")
    if parent.endswith("/"):  # a whole bucket, which lists itself or fails
        return bool(_children(path))
    return name in _children(parent)


@contextlib.contextmanager
def _truly_not_found(path: str) -> Iterator[None]:
    """Inside, NotFoundError is raised only when the store itself says that there is no such file."""
    tf = _tf()
    try:
        yield
    except tf.errors.NotFoundError:
        if _scheme(path) in _BELIEVED_WHEN_LISTING and _is_listed(path):
            raise tf.errors.UnavailableError(
                None, None, f"{path} is there, but the store did not answer for it"
            ) from None
        raise
