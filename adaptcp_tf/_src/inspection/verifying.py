# SPDX-License-Identifier: Apache-2.0
"""Reads every byte of checkpoints and tells what is wrong with them."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import DenseBundle, Manifest, Segment, Tiers
from adaptcp_tf._src.ops.inspect import verify_segment
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import op_message, translated

_INDEX = ".index"
_DAMAGE = (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that keeps checkpoints from being restored.

    Attributes:
        path: of the file, relative to the directory.
        steps: the checkpoints that need it, rising.
        message: what is wrong with it.
    """

    path: str
    steps: tuple[int, ...]
    message: str


@dataclasses.dataclass(frozen=True)
class VerifyReport:
    """What was found.

    Attributes:
        steps: the checkpoints that were looked at, rising.
        problems: what is wrong; empty when each of them restores.
        files: how many files were read; those that checkpoints share count once.
        bytes: their size.
    """

    steps: tuple[int, ...]
    problems: tuple[Problem, ...]
    files: int
    bytes: int

    @property
    def bad_steps(self) -> tuple[int, ...]:
        """The checkpoints that do not restore, rising."""
        return tuple(sorted({step for problem in self.problems for step in problem.steps}))


# What is read in one go: a segment, or the files of a dense bundle.
@dataclasses.dataclass
class _Item:
    paths: dict[str, int]
    segment: Segment | None
    bundle: DenseBundle | None
    steps: list[int]

    @property
    def bytes(self) -> int:
        return sum(self.paths.values())


def verify(
    tiers: Tiers,
    steps: Sequence[int],
    *,
    num_threads: int = 8,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> VerifyReport:
    """Reads every byte of checkpoints: manifests, segments and dense variables.

    Safe beside a trainer: a checkpoint that retention deletes meanwhile is left out.

    Example:
        >>> verify(Tiers(directory), Tiers(directory).all_steps()).problems
        ()

    Args:
        tiers: where they are.
        steps: which.
        num_threads: files that are read at once.
        watch: called now and then with the bytes that were read so far, and those of all files.

    Returns:
        What was found.

    Raises:
        StorageError: the store could not tell, so that nothing is known.
    """
    problems: list[Problem] = []
    items: dict[str, _Item] = {}
    for step in steps:
        try:
            _add_items(tiers.front.read(step), items)
        except errors.CheckpointNotFoundError:
            continue  # by retention, meanwhile
        except errors.CorruptCheckpointError as error:
            name = tiers.front.manifest_path(step).rsplit("/", 1)[1]
            problems.append(Problem(name, (step,), str(error)))
    total = sum(item.bytes for item in items.values())
    done = 0
    with concurrent.futures.ThreadPoolExecutor(num_threads, "adaptcp-verify") as executor:
        futures = {executor.submit(_check, tiers, item): item for item in items.values()}
        for future in concurrent.futures.as_completed(futures):
            item = futures[future]
            fault = future.result()
            if fault is not None:
                problems.append(Problem(fault[0], tuple(item.steps), fault[1]))
            done += item.bytes
            watch(done, total)
    # Manifests go before files: what retention deleted meanwhile was needed by none of these.
    present = set(tiers.front.all_steps())
    problems = [
        dataclasses.replace(problem, steps=tuple(step for step in problem.steps if step in present))
        for problem in problems
    ]
    return VerifyReport(
        steps=tuple(step for step in steps if step in present),
        problems=tuple(
            problem
            for problem in sorted(problems, key=lambda problem: (problem.steps, problem.path))
            if problem.steps
        ),
        files=sum(len(item.paths) for item in items.values()),
        bytes=total,
    )


def _add_items(manifest: Manifest, items: dict[str, _Item]) -> None:
    for segment in manifest.segments:
        item = _Item({segment.path: segment.bytes}, segment, None, [])
        items.setdefault(segment.path, item).steps.append(manifest.step)
    if manifest.dense is not None:
        item = _Item(manifest.dense.paths(), None, manifest.dense, [])
        items.setdefault(manifest.dense.prefix, item).steps.append(manifest.step)


def _check(tiers: Tiers, item: _Item) -> tuple[str, str] | None:
    """Reads one item; returns which file of it is wrong, and why."""
    try:
        return _read(tiers, item)
    except errors.StorageNotFoundError:
        pass  # deleted since it was found; from a buffer, it is in the directory
    try:
        return _read(tiers, item)
    except errors.StorageNotFoundError as error:
        return next(iter(item.paths)), str(error)


def _read(tiers: Tiers, item: _Item) -> tuple[str, str] | None:
    first = next(iter(item.paths))
    try:
        found = {path: _find(tiers, item.steps[0], path, n) for path, n in item.paths.items()}
        if item.segment is not None:
            return _check_segment(item.segment, found[first])
        return _check_bundle(item.bundle, found)
    except errors.CorruptCheckpointError as error:
        return next((p for p in item.paths if error.path and error.path.endswith(p)), first), str(
            error
        )


def _find(tiers: Tiers, step: int, path: str, size: int) -> str:
    """Where a file is: in the first tier, or else in the second."""
    for store in tiers.stores[:-1]:
        try:
            if files.size(store.path(path)) == size:
                return store.path(path)
        except errors.StorageNotFoundError:
            pass
    tiers.remote.check_file(step, path, size)
    return tiers.remote.path(path)


def _check_segment(segment: Segment, path: str) -> tuple[str, str] | None:
    try:
        with translated("read", path):
            found = verify_segment(path)
    except errors.StorageError as error:
        return segment.path, _damage(error)
    expected = {name: getattr(segment, name) for name in found}
    if found == expected:
        return None
    return (
        segment.path,
        f"it is not the file that was written. Expected: {expected}. Found: {found}.",
    )


def _check_bundle(bundle: DenseBundle, found: dict[str, str]) -> tuple[str, str] | None:
    index = bundle.prefix + _INDEX
    prefix = found[index][: -len(_INDEX)]
    for variable in bundle.variables:
        where = f"dense variable {variable.key!r}"
        try:
            with translated("read the dense variables from", prefix):
                # Reading a tensor compares its checksum.
                (value,) = tf.raw_ops.RestoreV2(
                    prefix=prefix,
                    tensor_names=[variable.key],
                    shape_and_slices=[""],
                    dtypes=[tf.as_dtype(variable.dtype)],
                )
        except errors.StorageError as error:
            return index, f"{where}: {_damage(error)}"
        if tuple(value.shape) != variable.shape:
            return index, f"{where}: expected shape {variable.shape}, found {tuple(value.shape)}."
    return None


def _damage(error: errors.StorageError) -> str:
    """Says what is damaged; raises if it is the store that failed."""
    cause = error.__cause__
    missing = isinstance(cause, tf.errors.NotFoundError) and "not found in checkpoint" in str(cause)
    if not missing and not isinstance(cause, _DAMAGE):
        raise error
    return op_message(cause)
