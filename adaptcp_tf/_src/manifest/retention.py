# SPDX-License-Identifier: Apache-2.0
"""Retention: which checkpoints stay, and the deletion of files that no kept one needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import names
from adaptcp_tf._src.manifest.store import CheckpointStore
from adaptcp_tf._src.storage import files


@dataclasses.dataclass(frozen=True)
class DeletionPlan:
    """What retention decided.

    Attributes:
        keep_steps: steps that stay, rising.
        delete_steps: steps that go, rising.
        keep_paths: every file that a kept step needs, relative to the directory.
    """

    keep_steps: tuple[int, ...]
    delete_steps: tuple[int, ...]
    keep_paths: frozenset[str]


@dataclasses.dataclass(frozen=True)
class CollectReport:
    """What a collection did.

    Attributes:
        kept_steps: readable steps that stay, rising.
        deleted_steps: steps that were deleted, rising.
        deleted_files: files that were deleted, relative to the directory, manifests not counted.
        unreadable: why manifests could not be read, one message each. While there are any, no
            segment is deleted, since it might be theirs.
    """

    kept_steps: tuple[int, ...]
    deleted_steps: tuple[int, ...]
    deleted_files: tuple[str, ...]
    unreadable: tuple[str, ...]


def plan_deletions(
    files_of: Mapping[int, Collection[str]],
    max_to_keep: int | None,
    keep_period: int | None = None,
) -> DeletionPlan:
    """Decides which checkpoints stay.

    Example:
        >>> plan_deletions({100: ["a", "b"], 200: ["a", "c"]}, max_to_keep=1)
        DeletionPlan(keep_steps=(200,), delete_steps=(100,), keep_paths=frozenset({...}))

    Args:
        files_of: step -> the files it needs, for each checkpoint there is.
        max_to_keep: how many of the newest stay; None keeps all.
        keep_period: steps that are a multiple of this stay for ever; None for no such steps.

    Returns:
        The plan.

    Raises:
        InvalidOptionError: if one of the numbers is not a positive integer.
    """
    for name, value in (("max_to_keep", max_to_keep), ("keep_period", keep_period)):
        if value is not None and (type(value) is not int or value < 1):
            raise errors.InvalidOptionError(
                f"Invalid value for {name}. Received: {value!r}. Expected: an integer of 1 or "
                "more, or None."
            )
    steps = sorted(files_of)
    kept = set(steps if max_to_keep is None else steps[-max_to_keep:])
    if keep_period is not None:
        kept.update(step for step in steps if step % keep_period == 0)
    return DeletionPlan(
        keep_steps=tuple(sorted(kept)),
        delete_steps=tuple(step for step in steps if step not in kept),
        keep_paths=frozenset(path for step in kept for path in files_of[step]),
    )


def collect(
    store: CheckpointStore,
    *,
    max_to_keep: int | None,
    keep_period: int | None = None,
    protected: Sequence[str] = (),
    watch: Callable[[str], None] = lambda path: None,
) -> CollectReport:
    """Deletes old checkpoints, then every file of ours that no remaining checkpoint needs.

    Manifests go first. So a crash leaves every checkpoint that still exists complete, and the
    rest is garbage which the next call removes, like the files of a save that was killed. Only
    files in directories and under names of our pattern are deleted. The caller holds the
    `DirectoryLock` of the directory.

    Example:
        >>> collect(CheckpointStore(directory), max_to_keep=3).deleted_steps
        ()

    Args:
        store: the directory of checkpoints.
        max_to_keep: as in `plan_deletions`.
        keep_period: as in `plan_deletions`.
        protected: paths relative to the directory that must stay, though no manifest names them
            yet: directories of attempts in flight, and files that these build on.
        watch: called with each file that was deleted, relative to the directory, manifests not among
            them.

    Returns:
        What was done.

    Raises:
        InvalidOptionError: if one of the numbers is not a positive integer.
        StorageError: if something could not be listed or deleted; what is left is garbage.
    """
    with store.mutex:
        files_of, unreadable = _files_of_all(store)
        plan = plan_deletions(files_of, max_to_keep, keep_period)
        store.delete_manifests(plan.delete_steps)
        _delete_manifest_leftovers(store)
        deleted: list[str] = []
        if not unreadable:
            keep = plan.keep_paths.union(protected)
            kept_in = _by_attempt(keep)
            attempts = store.attempt_dirs()
            store.forget_all_but(plan.keep_steps, attempts)
            for attempt in attempts:
                if attempt not in keep:
                    kept = frozenset(kept_in.get(attempt, ()))
                    deleted.extend(_sweep_if_changed(store, attempt, kept, watch))
        return CollectReport(plan.keep_steps, plan.delete_steps, tuple(deleted), unreadable)


def garbage_of(store: CheckpointStore, keep: frozenset[str]) -> list[str]:
    """Lists what a collection would delete.

    Example:
        >>> garbage_of(CheckpointStore(directory), frozenset())
        []

    Args:
        store: the directory of checkpoints.
        keep: files, and directories of attempts, that stay; relative to the directory.

    Returns:
        The files of ours that do not stay, relative to the directory.

    Raises:
        StorageError: if something could not be listed.
    """
    return [
        path
        for attempt in store.attempt_dirs()
        if attempt not in keep
        for path in _doomed(attempt, store.list_dir(attempt), keep)
    ]


def discard_attempt(store: CheckpointStore, attempt: str) -> tuple[str, ...]:
    """Deletes the files of a save that failed, at once, so that a full disk gets room again.

    Example:
        >>> store = CheckpointStore(directory)
        >>> discard_attempt(store, store.new_attempt_dir(7))
        ()

    Args:
        store: the directory of checkpoints.
        attempt: what `new_attempt_dir` returned for that save.

    Returns:
        The deleted files, relative to the directory; none if a manifest that cannot be read might
        need them. Files that a checkpoint needs stay.

    Raises:
        InvalidOptionError: if this is not the directory of an attempt.
        StorageError: if something could not be listed or deleted.
    """
    head, _, name = attempt.rpartition("/")
    if head != names.SEGMENTS_DIR or not names.is_attempt_dir(name):
        raise errors.InvalidOptionError(
            f"Invalid value for attempt. Received: {attempt!r}. Expected: what new_attempt_dir "
            "returned, such as 'segments/0000000000000007-0badcafe'."
        )
    with store.mutex:
        files_of, unreadable = _files_of_all(store)
        if unreadable or not files.exists(store.path(attempt)):
            return ()
        keep = frozenset().union(*files_of.values())
        return tuple(_sweep(store, attempt, keep, lambda path: None))


def _files_of_all(
    store: CheckpointStore,
) -> tuple[dict[int, frozenset[str]], tuple[str, ...]]:
    files_of: dict[int, frozenset[str]] = {}
    unreadable: list[str] = []
    for step in store.all_steps():
        try:
            files_of[step] = store.files_of(step)
        except (errors.CorruptCheckpointError, errors.StorageError) as error:
            unreadable.append(str(error))
    return files_of, tuple(unreadable)


def _delete_manifest_leftovers(store: CheckpointStore) -> None:
    """Deletes temporary files of commits that were killed; none is in flight under the mutex."""
    for name in store.list_dir():
        if names.is_manifest_leftover(name):
            files.delete_file(store.path(name))


def _by_attempt(paths: Collection[str]) -> dict[str, set[str]]:
    kept_in: dict[str, set[str]] = {}
    for path in paths:
        kept_in.setdefault(path.rpartition("/")[0], set()).add(path)
    return kept_in


def _sweep_if_changed(
    store: CheckpointStore, attempt: str, kept: frozenset[str], watch: Callable[[str], None]
) -> list[str]:
    """Sweeps unless what it keeps is the same as last time: listing may cost a round trip."""
    if kept and store.swept.get(attempt) == kept:
        return []
    deleted = _sweep(store, attempt, kept, watch)
    store.swept[attempt] = kept
    return deleted


def _sweep(
    store: CheckpointStore, attempt: str, keep: frozenset[str], watch: Callable[[str], None]
) -> list[str]:
    """Deletes our files in an attempt's directory but those to keep; then it, if it is empty."""
    found = store.list_dir(attempt)
    doomed = _doomed(attempt, found, keep)
    for relative in doomed:
        files.delete_file(store.path(relative))
        watch(relative)
    if len(doomed) == len(found):
        files.delete_dir_if_empty(store.path(attempt))
    return doomed


def _doomed(attempt: str, found: Sequence[str], keep: frozenset[str]) -> list[str]:
    """Those of the names in an attempt's directory that are ours and not to be kept, as paths."""
    ours = (f"{attempt}/{name}" for name in found if names.is_attempt_file(name))
    return [relative for relative in ours if relative not in keep]
