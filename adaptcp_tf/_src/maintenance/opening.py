# SPDX-License-Identifier: Apache-2.0
"""Opens a directory that is to be changed."""

from __future__ import annotations

from adaptcp_tf import errors
from adaptcp_tf._src.inspection import buffered_directory, open_tiers
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.storage import files


def store_to_change(directory: files.PathLike) -> CheckpointStore:
    """Returns the checkpoints of a directory that is no buffer.

    Raises:
        CheckpointNotFoundError: there is no such directory.
        InvalidOptionError: it is an SSD buffer, which only its trainer may change.
        StorageError: the storage could not tell.
    """
    remote = buffered_directory(directory)
    if remote is not None:
        raise errors.InvalidOptionError(
            f"Invalid value for DIR. Received: {files.normalize(directory)!r}, the buffer of "
            f"{remote!r}. Expected: a directory that is no buffer. The trainer tidies its buffer up "
            f"itself; give {remote!r}."
        )
    return open_tiers(directory).front
