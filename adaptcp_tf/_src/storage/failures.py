# SPDX-License-Identifier: Apache-2.0
"""Turns what operating system and TensorFlow report into errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import sys
from collections.abc import Iterator
from typing import Optional

from adaptcp_tf import errors

_NOT_FOUND_ADVICE = "Check the path, and that this host sees the same storage as the others."
_PERMISSION_ADVICE = "Give this user (or these credentials) access to it, or choose another path."
_FULL_ADVICE = (
    "Free space there or raise the quota, keep fewer checkpoints (max_to_keep), or choose "
    "another path."
)
_OTHER_ADVICE = "Check that the storage is reachable from this host and healthy, then try again."

_PERMISSION_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_NOT_A_DIRECTORY_ERRNOS = (errno.ENOTDIR, errno.EEXIST)

_TENSORFLOW_IO_FOR = {"2.15": "tensorflow-io==0.36.0", "2.16": "tensorflow-io==0.37.1"}

# What eager execution puts around what an op says: its node before, its name after.
_AROUND_MESSAGE = re.compile(r"^\{\{function_node [^{}]*\}\} | \[Op:\w+\](?: name: ?\S*)?$")

_Diagnosis = tuple[type[errors.StorageError], str, Optional[int]]


@contextlib.contextmanager
def translated(action: str, path: str) -> Iterator[None]:
    """Translates the errors of one file operation.

    Example:
        >>> with translated("read", "/nowhere/file"):
        ...     open("/nowhere/file", "rb")
        Traceback (most recent call last):
        ...
        adaptcp_tf.errors.StorageNotFoundError: ...

    Args:
        action: what is being done, as the verb of "Could not ... PATH".
        path: the file or directory it is done to.

    Returns:
        A context manager.

    Raises:
        StorageError: or the subclass that fits, in place of any `OSError` or `tf.errors.OpError`
            raised inside.
    """
    try:
        yield
    except errors.AdaptCPError:
        raise
    except OSError as error:
        received = error.strerror or str(error)
        raise _storage_error(action, path, received, _diagnose_os(path, error)) from error
    except Exception as error:
        if not _is_op_error(error):
            raise
        raise _storage_error(action, path, op_message(error), _diagnose_op(path, error)) from error


def op_message(error: Exception) -> str:
    """Returns what an error says; if it is of an op, without what TensorFlow adds about that.

    Example:
        >>> import tensorflow as tf
        >>> op_message(tf.errors.DataLossError(None, None, "run1/a.acp: bad checksum [Op:Verify]"))
        'run1/a.acp: bad checksum'

    Args:
        error: a `tf.errors.OpError`, or any other error.
    """
    return _AROUND_MESSAGE.sub("", getattr(error, "message", None) or str(error))


@contextlib.contextmanager
def reading(
    path: str, *, damaged: str, advice: str = "", action: str = "read", all_below: bool = False
) -> Iterator[None]:
    """Translates the errors of reading a checkpoint: the store failed, or what it has is damaged.

    Example:
        >>> import tensorflow as tf
        >>> with reading("/data/run1/segments/x.acp", damaged="A segment is damaged."):
        ...     raise tf.errors.DataLossError(None, None, "wrong checksum")
        Traceback (most recent call last):
        ...
        adaptcp_tf.errors.CorruptCheckpointError: A segment is damaged. Received: wrong checksum.

    Args:
        path: the file or directory that is read.
        damaged: a sentence for when the bytes are not those that were written.
        advice: another one, what to do then.
        action: what is being done, as for `translated`.
        all_below: whether the path is of the whole, so that it does not tell which file is damaged.

    Returns:
        A context manager.

    Raises:
        CorruptCheckpointError: the bytes are damaged, or too few.
        StorageError: the store failed; as `translated`.
    """
    try:
        with translated(action, path):
            yield
    except errors.StorageError as error:
        if not _is_damage(error.__cause__):
            raise
        parts = (damaged, f"Received: {op_message(error.__cause__)}.", advice)
        raise errors.CorruptCheckpointError(
            " ".join(filter(None, parts)), path=None if all_below else path
        ) from error


def _storage_error(
    action: str, path: str, received: str, diagnosis: _Diagnosis
) -> errors.StorageError:
    error_class, advice, number = diagnosis
    return error_class(
        f"Could not {action} {path!r} on host {socket.gethostname()!r}. "
        f"Received: {received}. {advice}",
        path=path,
        errno=number,
    )


def _diagnose_os(path: str, error: OSError) -> _Diagnosis:
    if error.errno in _NOT_A_DIRECTORY_ERRNOS:
        advice = f"{_file_among_parents(path)!r} is a file where a directory is needed."
        return errors.StorageError, f"{advice} Choose another path, or move it away.", error.errno
    if error.errno == errno.ENOENT:
        return errors.StorageNotFoundError, _NOT_FOUND_ADVICE, error.errno
    if error.errno in _PERMISSION_ERRNOS:
        return errors.StoragePermissionError, _PERMISSION_ADVICE, error.errno
    if error.errno in _FULL_ERRNOS:
        return errors.StorageFullError, _FULL_ADVICE, error.errno
    return errors.StorageError, _OTHER_ADVICE, error.errno


def _file_among_parents(path: str) -> str:
    candidate = path
    while candidate and candidate != os.path.dirname(candidate):
        if os.path.exists(candidate) and not os.path.isdir(candidate):
            return candidate
        candidate = os.path.dirname(candidate)
    return path


def _is_op_error(error: Exception) -> bool:
    # Only code that imported TensorFlow can raise its errors, so local paths never pay the import.
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def _is_damage(error: BaseException | None) -> bool:
    tf = sys.modules.get("tensorflow")
    damage = () if tf is None else (tf.errors.DataLossError, tf.errors.OutOfRangeError)
    return isinstance(error, damage)


def _diagnose_op(path: str, error: Exception) -> _Diagnosis:
    tf = sys.modules["tensorflow"]
    if isinstance(error, tf.errors.UnimplementedError) and "scheme" in error.message:
        return errors.UnsupportedFileSystemError, _plugin_advice(path), None
    if isinstance(error, tf.errors.NotFoundError):
        return errors.StorageNotFoundError, _NOT_FOUND_ADVICE, errno.ENOENT
    if isinstance(error, (tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError)):
        return errors.StoragePermissionError, _PERMISSION_ADVICE, errno.EACCES
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return errors.StorageFullError, _FULL_ADVICE, errno.ENOSPC
    return errors.StorageError, _OTHER_ADVICE, None


def _plugin_advice(path: str) -> str:
    tf = sys.modules["tensorflow"]
    version = ".".join(tf.__version__.split(".")[:2])
    package = _TENSORFLOW_IO_FOR.get(version, "the tensorflow-io release made")
    scheme = re.split("://", path, maxsplit=1)[0]
    known = ", ".join(sorted(tf.io.gfile.get_registered_schemes()))
    return (
        f"TensorFlow {tf.__version__} has no file system for {scheme!r} here. Install "
        f"{package} for TensorFlow {version} and `import tensorflow_io` before "
        f"adaptcp_tf is used. Schemes known now: {known}."
    )
