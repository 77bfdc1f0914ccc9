# SPDX-License-Identifier: Apache-2.0
"""Finds the checkpoints that somebody asks for, in a directory or in an SSD buffer."""

from __future__ import annotations

import json

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore, Tiers
from adaptcp_tf._src.manifest.tiers import BINDING_NAME
from adaptcp_tf._src.storage import files


def buffered_directory(directory: files.PathLike) -> str | None:
    """Tells whose buffer a directory is.

    Args:
        directory: a path or URI.

    Returns:
        The directory that it is the buffer of; None if it is none.

    Raises:
        CorruptCheckpointError: its binding cannot be read.
        StorageError: the storage could not tell.
    """
    directory = files.normalize(directory)
    if not files.is_local(directory):
        return None
    path = files.join(directory, BINDING_NAME)
    try:
        return str(json.loads(files.read_bytes(path))["directory"])
    except errors.StorageNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise errors.CorruptCheckpointError(
            f"{path!r} does not say whose buffer this is. Received: {error}. Expected: a JSON "
            'object with the key "directory". Delete it if its run is over and uploaded.',
            path=path,
        ) from error


def open_tiers(directory: files.PathLike) -> Tiers:
    """Opens a directory of checkpoints, together with the other tier if it is a buffer.

    Args:
        directory: a path or URI.

    Returns:
        Where files of its checkpoints are.

    Raises:
        CheckpointNotFoundError: there is no such directory.
        CorruptCheckpointError: its binding cannot be read.
        StorageError: the storage could not tell.
    """
    directory = files.normalize(directory)
    if not files.exists(directory):
        raise errors.CheckpointNotFoundError(
            f"There is no directory {directory!r}. Check its name, and that this host sees it."
        )
    remote = buffered_directory(directory)
    return Tiers(directory) if remote is None else Tiers(remote, directory)


def step_to_read(store: CheckpointStore, step: int | None) -> int:
    """Returns the step that is meant.

    Args:
        store: the checkpoints.
        step: one of them; None means the newest.

    Raises:
        CheckpointNotFoundError: there is none.
        InvalidOptionError: that cannot be a step.
    """
    steps = store.all_steps()
    store.manifest_path(step or 0)
    if step is None and steps:
        return steps[-1]
    if step not in steps:
        raise errors.CheckpointNotFoundError(
            f"There is no checkpoint{'' if step is None else f' of step {step}'} in "
            f"{store.directory!r}. Steps there: {', '.join(map(str, steps)) or 'none'}."
        )
    return step
