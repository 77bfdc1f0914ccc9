# SPDX-License-Identifier: Apache-2.0
"""Loads one checkpoint into tables and dense variables."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.dense import DenseVariables, check_variables, restore_variables
from adaptcp_tf._src.manifest import Manifest, Position, Tiers, restore_order
from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.policy import Policy, RestoreSample
from adaptcp_tf._src.storage.failures import op_message
from adaptcp_tf._src.tables import TableGroup

logger = logging.getLogger("adaptcp_tf")

_PROGRESS_SECS = 0.1
# Of several groups so many share the threads that read that each has this many.
_READERS_PER_GROUP = 4


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """What a restore did.

    Attributes:
        step: the step that was restored.
        position: where in the input to go on, or None when it is not known.
        counters: what `save` was given to keep.
        rows: rows loaded.
        stale_rows: copies of rows that newer segments made obsolete.
        bytes: bytes read from segments.
        stale_skip: share of the bytes of obsolete copies that did not have to be read, 0 to 1.
        seconds: how long it took.
        exact: whether the checkpoint, all of it, holds every bit.
        tables_without_rows: "group/table" names that got no rows, since the checkpoint has none or
            they were left out; their rows start with the initial value.
    """

    step: int
    position: Position | None
    counters: dict[str, Any]
    rows: int
    stale_rows: int
    bytes: int
    stale_skip: float
    seconds: float
    exact: bool
    tables_without_rows: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Selection:
    """What of a checkpoint is restored.

    Attributes:
        groups: names of TFRA variables, or None for all.
        slots: whether optimizer slots are restored; otherwise they start with the initial value.
        dense: whether dense variables are restored.
    """

    groups: tuple[str, ...] | None = None
    slots: bool = True
    dense: bool = True

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.groups is None and self.slots and self.dense

    def of(self, named: Sequence[Any]) -> list[Any]:
        """Those that are selected of things with names of groups."""
        return [one for one in named if self.groups is None or one.name in self.groups]


def check_groups(manifest: Manifest, groups: Sequence[TableGroup], selection: Selection) -> None:
    """Raises unless every saved table that is selected has its place in the model.

    Raises:
        IncompatibleModelError: a group or table is missing, or has other dtypes or dims.
        InvalidOptionError: a group is selected that the checkpoint does not have.
    """
    saved_names = [saved.name for saved in manifest.groups]
    unknown = sorted(set(selection.groups or ()) - set(saved_names))
    if unknown:
        raise errors.InvalidOptionError(
            f"Invalid value for groups. Received: {', '.join(unknown)}. Expected: some of the TFRA "
            f"variables of the checkpoint of step {manifest.step}: {', '.join(saved_names)}."
        )
    by_name = {group.name: group for group in groups}
    for saved in selection.of(manifest.groups):
        group = by_name.get(saved.name)
        where = f"TFRA variable {saved.name!r} of the checkpoint of step {manifest.step}"
        if group is None:
            raise errors.IncompatibleModelError(
                f"{where} is not in the model. Received: {sorted(by_name)}. Give the layers the "
                "names they had, and build the model before restoring."
            )
        if saved.key_dtype != group.key_dtype.name:
            raise errors.IncompatibleModelError(
                f"{where} has other keys. Received: {group.key_dtype.name}. Expected: "
                f"{saved.key_dtype}."
            )
        _check_tables(where, saved.tables if selection.slots else saved.tables[:1], group)


def _check_tables(where: str, saved_tables: Sequence, group: TableGroup) -> None:
    for saved in saved_tables:
        tables = group.tables_of(saved.name)
        if not tables:
            names = [attached.name for attached in group.shards[0].tables]
            raise errors.IncompatibleModelError(
                f"{where} has a table {saved.name!r} that the model lacks. Received: {names}. Use "
                "the optimizer the checkpoint was made with, and let it make its slots first."
            )
        table = tables[0].table
        here = f"{table._value_dtype.name} x {int(table._default_value.shape[0])}"
        there = f"{saved.dtype} x {saved.dim}"
        if here != there:
            raise errors.IncompatibleModelError(
                f"{where}, table {saved.name!r}, has other rows. Received: {here}. "
                f"Expected: {there}."
            )


def check_checkpoint(
    tiers: Tiers,
    manifest: Manifest,
    groups: Sequence[TableGroup],
    variables: DenseVariables,
    selection: Selection,
) -> dict[str, str]:
    """Raises unless a checkpoint can be loaded; changes nothing.

    Args:
        tiers: where the checkpoint is.
        manifest: which checkpoint.
        groups: the model's table groups.
        variables: the model's dense variables.
        selection: what of it.

    Returns:
        Where its files are, by their paths relative to the directory.

    Raises:
        IncompatibleModelError: the model is not the one that was saved.
        InvalidOptionError: a group is selected that there is not.
        CorruptCheckpointError: a file is missing or has another size.
        StorageError: a file could not be looked up.
    """
    paths = tiers.locate(manifest)
    check_groups(manifest, groups, selection)
    if selection.dense:
        check_variables(manifest.dense, variables.specs)
    return paths


def find_manifest(tiers: Tiers, step: int | None) -> Manifest:
    """Reads the manifest of a step, or of the newest if that is None.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: its manifest is damaged.
        StorageError: it could not be read.
    """
    # Asked once: it lists both tiers, and compares manifests.
    steps = tiers.all_steps()
    if step is None:
        step = max(steps, default=None)
    if step not in steps:
        raise errors.CheckpointNotFoundError(
            f"There is no checkpoint{'' if step is None else f' of step {step}'} in "
            f"{tiers.directory!r}. Received: steps {steps}."
        )
    return tiers.read(step)


@contextlib.contextmanager
def restore_errors(directory: str, manifest: Manifest) -> Iterator[None]:
    """Turns what the engine reports into errors that name the checkpoint and say what to do."""
    try:
        yield
    except tf.errors.DataLossError as error:
        raise errors.CorruptCheckpointError(
            f"The checkpoint of step {manifest.step} is damaged. {op_message(error)}. Restore another "
            "step."
        ) from error
    except (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError) as error:
        raise errors.IncompatibleModelError(
            f"The checkpoint of step {manifest.step} cannot be restored. {op_message(error)}"
        ) from error
    except tf.errors.OpError as error:
        raise errors.StorageError(
            f"The checkpoint of step {manifest.step} in {directory!r} could not be read. "
            f"Received: {op_message(error)}. Restore again when the store answers.",
            path=directory,
        ) from error


def load_checkpoint(
    paths: Mapping[str, str],
    manifest: Manifest,
    groups: Sequence[TableGroup],
    variables: DenseVariables,
    *,
    directory: str,
    selection: Selection,
    num_threads: int,
    read_threads: int,
    progress: bool | None,
) -> RestoreReport:
    """Replaces rows, trackers and dense variables by those of a checkpoint that was checked.

    After an error the model is in an undefined state.

    Args:
        paths: where its files are, from `check_checkpoint`.
        manifest: which checkpoint.
        groups: the model's table groups.
        variables: the model's dense variables.
        directory: that of the checkpoints, for messages.
        selection: what of it.
        num_threads: threads that insert at once.
        read_threads: threads that read at once.
        progress: show a progress bar; None shows it on terminals.

    Raises:
        IncompatibleModelError: the partition function of a variable names a shard that there is not.
        CorruptCheckpointError: a file is damaged.
        StorageError: a file could not be read.
    """
    start = time.perf_counter()
    groups = selection.of(groups)
    order = restore_order(manifest)
    saved_shards = {saved.name: saved.num_shards for saved in manifest.groups}
    # Groups side by side, and the blocks of each too, on so many threads all in all.
    workers = max(1, min(len(groups), max(num_threads, read_threads // _READERS_PER_GROUP)))
    totals = {"rows": 0, "stale_rows": 0, "bytes_read": 0}
    missing = []

    def load_group(group: TableGroup) -> dict[str, Any]:
        with eagerly():
            group.clear()
            segments = order.get(group.name, [])
            return group.restore(
                manifest.interval,
                segments,
                [paths[segment.path] for segment in segments],
                saved_shards=saved_shards.get(group.name, 1),
                slots=selection.slots,
                num_threads=max(1, num_threads // workers),
                read_threads=max(1, read_threads // workers),
            )

    def load_dense() -> None:
        with eagerly():
            restore_variables(manifest.dense, paths, variables)

    def load() -> None:
        with concurrent.futures.ThreadPoolExecutor(workers + 1, "adaptcp-restore") as executor:
            dense = selection.dense and executor.submit(load_dense)
            for group, result in zip(groups, executor.map(load_group, groups)):
                missing.extend(f"{group.name}/{t}" for t in result["tables_without_rows"])
                for name in totals:
                    totals[name] += result[name]
            if dense:
                dense.result()

    with restore_errors(directory, manifest):
        _with_progress(load, manifest, groups, progress)
    report = RestoreReport(
        step=manifest.step,
        position=manifest.position,
        counters=manifest.counters,
        rows=totals["rows"],
        stale_rows=totals["stale_rows"],
        bytes=totals["bytes_read"],
        stale_skip=_stale_skip(manifest, **totals) if selection.everything else 0.0,
        seconds=time.perf_counter() - start,
        exact=manifest.exact,
        tables_without_rows=tuple(sorted(set(missing))),
    )
    _log(report)
    return report


def tell_policy(policy: Policy, manifest: Manifest, report: RestoreReport) -> None:
    """Has the policy go on from a checkpoint that was restored, and learn what that cost."""
    policy.load_state({**manifest.policy, "since_base": manifest.interval - manifest.base_interval})
    observe_restore = getattr(policy, "observe_restore", None)
    if observe_restore is not None:
        observe_restore(
            RestoreSample(bytes=report.bytes, seconds=report.seconds, stale_skip=report.stale_skip)
        )


def _stale_skip(manifest: Manifest, rows: int, stale_rows: int, bytes_read: int) -> float:
    if stale_rows == 0:
        return 0.0
    written = sum(segment.bytes for segment in manifest.segments)
    stale_bytes = written * stale_rows / (rows + stale_rows)
    return min(1.0, max(0.0, written - bytes_read) / stale_bytes)


def _log(report: RestoreReport) -> None:
    logger.info(
        "step %d restored: %d rows, %.1f MB read, %.2f s",
        report.step,
        report.rows,
        report.bytes / 1e6,
        report.seconds,
    )
    if not report.exact:
        logger.warning(
            "the checkpoint of step %d was quantised: rows are near what was trained, not the same",
            report.step,
        )
    if report.tables_without_rows:
        logger.warning(
            "the checkpoint of step %d gave nothing to %s; their rows start with the initial value",
            report.step,
            ", ".join(report.tables_without_rows),
        )


def _with_progress(
    load: Callable[[], None],
    manifest: Manifest,
    groups: Sequence[TableGroup],
    progress: bool | None,
) -> None:
    """Runs `load` on another thread and shows meanwhile how many rows are loaded."""
    shown = sys.stderr.isatty() if progress is None else progress
    if not shown:
        load()
        return
    bar = Progress(
        TextColumn("restoring step {task.fields[step]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows, {task.fields[megabytes]:.0f} MB"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    total = manifest.totals
    with concurrent.futures.ThreadPoolExecutor(1) as executor, bar:
        task = bar.add_task("", total=total["rows"], step=manifest.step, megabytes=0.0)
        future = executor.submit(load)
        while True:
            done, _ = concurrent.futures.wait([future], timeout=_PROGRESS_SECS)
            rows = sum(shard.stats()["restored_rows"] for g in groups for shard in g.shards)
            # Stale copies are never loaded, so a finished restore counts as all rows.
            rows = total["rows"] if done else min(rows, total["rows"])
            share = rows / max(1, total["rows"])
            bar.update(task, completed=rows, megabytes=share * total["bytes"] / 1e6)
            if done:
                future.result()
                return
