# SPDX-License-Identifier: Apache-2.0
"""Deletes old checkpoints, and files that belong to none, while nobody trains."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable

from adaptcp_tf import errors
from adaptcp_tf._src.maintenance.opening import store_to_change
from adaptcp_tf._src.manifest import CheckpointStore, collect, garbage_of, plan_deletions
from adaptcp_tf._src.manifest.names import step_of_attempt
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.lock import DirectoryLock


@dataclasses.dataclass(frozen=True)
class GarbageReport:
    """What was deleted, or would be.

    Attributes:
        kept_steps: checkpoints that stay, rising.
        deleted_steps: checkpoints that go, rising.
        files: how many files go, manifests not counted.
        bytes: their size.
        unreadable: manifests that cannot be read, one message each; while there are any, no file of
            a checkpoint is deleted.
    """

    kept_steps: tuple[int, ...]
    deleted_steps: tuple[int, ...]
    files: int
    bytes: int
    unreadable: tuple[str, ...]


def collect_garbage(
    directory: files.PathLike,
    max_to_keep: int,
    *,
    dry_run: bool = False,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> GarbageReport:
    """Keeps the newest checkpoints of a directory and deletes what only others need.

    Takes the directory's lock, so that nobody trains into it meanwhile. What attempts to save steps
    after the newest have left is kept: it may wait for an upload from a buffer elsewhere.

    Example:
        >>> collect_garbage("/data/run1", 3, dry_run=True).deleted_steps
        (100, 200)

    Args:
        directory: a path or URI; no buffer.
        max_to_keep: how many stay, at least 1.
        dry_run: whether to delete nothing, and only say what would be.
        watch: called with the files that were deleted so far, and all that will be.

    Returns:
        What was deleted.

    Raises:
        CheckpointNotFoundError: there is no such directory.
        DirectoryLockedError: somebody trains into it.
        InvalidOptionError: it is a buffer, or the number is not positive.
        StorageError: something could not be listed or deleted; a later call tries again.
    """
    store = store_to_change(directory)
    with contextlib.nullcontext() if dry_run else DirectoryLock(directory):
        sizes: dict[str, int] = {}
        files_of: dict[int, frozenset[str]] = {}
        unreadable: list[str] = []
        for step in store.all_steps():
            try:
                manifest = store.read(step)
            except errors.CorruptCheckpointError as error:
                unreadable.append(str(error))
                continue
            files_of[step] = frozenset(manifest.files())
            sizes.update(manifest.files())
        plan = plan_deletions(files_of, max_to_keep)
        protected = [
            a for a in store.attempt_dirs() if step_of_attempt(a) > max(files_of, default=-1)
        ]
        doomed = [] if unreadable else garbage_of(store, plan.keep_paths.union(protected))
        doomed_sizes = {path: _size(store, path, sizes) for path in doomed}
        if not dry_run:
            count = itertools.count(1)
            done = collect(
                store,
                max_to_keep=max_to_keep,
                protected=protected,
                watch=lambda path: watch(next(count), len(doomed)),
            )
            doomed_sizes = {path: doomed_sizes.get(path, 0) for path in done.deleted_files}
    return GarbageReport(
        kept_steps=plan.keep_steps,
        deleted_steps=plan.delete_steps,
        files=len(doomed_sizes),
        bytes=sum(doomed_sizes.values()),
        unreadable=tuple(unreadable),
    )


def _size(store: CheckpointStore, path: str, known: dict[str, int]) -> int:
    if path in known:
        return known[path]
    try:
        return files.size(store.path(path))
    except errors.StorageNotFoundError:
        return 0  # a trainer's own collection, during a dry run
