# SPDX-License-Identifier: Apache-2.0
"""File operations on every TensorFlow file system that is not the local disk."""

from __future__ import annotations

import contextlib

from adaptcp_tf._src.storage import local_files

# Writing an object is atomic there, and a rename would only copy it once more.
_OBJECT_STORES = ("gs", "s3", "az", "oss")
_LIST_ATTEMPTS = 3


def is_object_store(path: str) -> bool:
    """Tells whether a file there is one object, which a PUT makes or replaces."""
    return path.split("://", 1)[0] in _OBJECT_STORES


def _tf():
    # Imported on first use: tools that read a local directory start without loading TensorFlow.
    import tensorflow as tf

    return tf


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    with _tf().io.gfile.GFile(path, "rb") as file:
        return file.read()


def read_range(path: str, offset: int, length: int) -> bytes:
    """Returns a part of a file."""
    with _tf().io.gfile.GFile(path, "rb") as file:
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
    for _ in range(_LIST_ATTEMPTS):
        try:
            # Object stores mark "directories" with a trailing slash.
            return [name.rstrip("/") for name in tf.io.gfile.listdir(path)]
        except tf.errors.NotFoundError:
            # TensorFlow says so too when the store did not answer whether this is a directory. Who
            # believes it takes a store that is down for an empty one: ask again, in a way that
            # tells the two apart.
            if not tf.io.gfile.stat(path).is_directory:
                raise tf.errors.FailedPreconditionError(
                    None, None, f"{path} is a file where a directory is needed"
                ) from None
    raise tf.errors.UnavailableError(
        None, None, f"{path} is there, but could not be listed {_LIST_ATTEMPTS} times"
    )


def exists(path: str) -> bool:
    """Tells whether a file or directory exists."""
    return _tf().io.gfile.exists(path)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
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


def copy_from_local(source: str, target: str) -> None:
    """Copies a local file to a store."""
    _tf().io.gfile.copy(source, target, overwrite=True)


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
