# SPDX-License-Identifier: Apache-2.0
"""Errors that adaptcp_tf raises; each derives from AdaptCPError and from the fitting builtin.

Example:
    try:
        manager.restore()
    except adaptcp_tf.errors.CheckpointNotFoundError:
        print("nothing saved yet, training starts from scratch")
    except adaptcp_tf.errors.CorruptCheckpointError as error:
        print("damaged file:", error.path)
"""

from __future__ import annotations

from typing import Any


class AdaptCPError(Exception):
    """Base of every error of this package; catch it to catch them all."""


class InvalidOptionError(AdaptCPError, ValueError):
    """An argument or option has a value that cannot work."""


class IncompatibleModelError(AdaptCPError, ValueError):
    """The model and the checkpoint do not fit: other variables, dtypes or dimensions."""


class InexactCheckpointError(AdaptCPError, ValueError):
    """The checkpoint was stored with fewer bits than the rows had, and that was not accepted."""


class CheckpointFailedError(AdaptCPError, RuntimeError):
    """A checkpoint failed in the background; raised by the next `save` or `wait`."""


class CheckpointNotFoundError(AdaptCPError, FileNotFoundError):
    """The directory holds no checkpoint, or not the step that was asked for."""


class CheckpointExistsError(AdaptCPError, FileExistsError):
    """A checkpoint of this step exists already and replacing it was not asked for."""


class CorruptCheckpointError(AdaptCPError, ValueError):
    """A file of a checkpoint is missing, damaged, or contradicts the rest of the checkpoint.

    Attributes:
        path: the file that is wrong, or None.
        field: the field of the file that is wrong, or None.
        expected: what a sound file would hold there.
        received: what was found instead.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        field: str | None = None,
        expected: Any = None,
        received: Any = None,
    ):
        super().__init__(message)
        self.path = path
        self.field = field
        self.expected = expected
        self.received = received


class DeltaOrderError(AdaptCPError, ValueError):
    """A delta does not start from what a table holds: one is missing, repeated or out of order."""


class DirectoryLockedError(AdaptCPError, RuntimeError):
    """Another writer owns the checkpoint directory.

    Attributes:
        directory: the directory that could not be locked, or None.
        host: the host of the owner, or None when the lock file is not readable.
        pid: the process id of the owner on that host, or None likewise.
    """

    def __init__(
        self,
        message: str,
        *,
        directory: str | None = None,
        host: str | None = None,
        pid: int | None = None,
    ):
        super().__init__(message)
        self.directory = directory
        self.host = host
        self.pid = pid


class StorageError(AdaptCPError, OSError):
    """A file system or object store refused an operation.

    Attributes:
        path: the file or directory of the operation, or None.
        errno: the error number of the operating system, or None where there is none.
    """

    def __init__(self, message: str, *, path: str | None = None, errno: int | None = None):
        super().__init__(message)
        self.path = path
        self.errno = errno

    def __reduce__(self):
        # OSError keeps errno outside of __dict__, where pickle would not see it.
        return type(self), self.args, {**vars(self), "errno": self.errno}


class StorageNotFoundError(StorageError, FileNotFoundError):
    """A file or directory does not exist."""


class StoragePermissionError(StorageError, PermissionError):
    """The process may not do this to a file or directory."""


class StorageFullError(StorageError):
    """The disk is full, or a quota is used up."""


class UnsupportedFileSystemError(StorageError, ValueError):
    """TensorFlow has no file system plugin for the scheme of a path."""
