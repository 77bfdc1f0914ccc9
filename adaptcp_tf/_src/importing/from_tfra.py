# SPDX-License-Identifier: Apache-2.0
"""Replaces the rows of a model by those of TFRA's own files."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.importing.tfra_scan import ShardFiles, scan
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.group import PARAMETER

if TYPE_CHECKING:
    from adaptcp_tf._src.checkpoint import CheckpointManager

logger = logging.getLogger("adaptcp_tf")

_BLOCK_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class TfraImport:
    """What was imported.

    Attributes:
        rows: of all TFRA variables that were loaded, slots not counted.
        bytes: of all files that were read.
        seconds: how long it took.
        tables_without_rows: "variable/table" names of tables that were left empty, since their files
            are, or slots were left out; their rows start with the initial value.
    """

    rows: int
    bytes: int
    seconds: float
    tables_without_rows: tuple[str, ...]


def tfra_files(
    manager: CheckpointManager,
    directory: str | os.PathLike[str],
    *,
    groups: Iterable[str] | None = None,
    slots: bool = True,
) -> TfraImport | None:
    """Replaces rows and slots by those of the `-keys` and `-values` files that TFRA wrote.

    TFRA's `save_to_file_system`, its `FileSystemSaver` and `acp.export.tfra_files` write them. All
    files are checked before anything changes. They may be of any number of devices and processes:
    rows go where the variable's partition function says. Dense variables stay as they are. The next
    checkpoint is a base.

    A model that is not built yet is loaded the moment its first call has built it, before that call
    computes anything.

    Example:
        >>> manager = acp.CheckpointManager("/data/run1", model=model)
        >>> acp.importing.tfra_files(manager, "/data/old_run/variables/TFRADynamicEmbedding")
        >>> manager.save(0)

    Args:
        manager: of the model. Between steps, on the thread that trains.
        directory: where the files are.
        groups: names of the TFRA variables to load; None takes all. Others keep their rows.
        slots: whether slots, and the state of restrict policies, are loaded; otherwise they start
            with the initial value.

    Returns:
        What was done; None when it waits for the model to be built. After an error while rows are
        loaded the model is in an undefined state.

    Raises:
        CorruptCheckpointError: a file is missing, or its size cannot be right.
        IncompatibleModelError: a table of the model has no files, or they have other rows or keys.
        InvalidOptionError: `groups` names what is not there, or keys are strings.
        StorageError: a file could not be read.
    """
    directory = files.normalize(directory)
    names = None if groups is None else tuple(groups)

    def change(of_manager: list[TableGroup]) -> TfraImport:
        start = time.perf_counter()
        chosen = _select(of_manager, names)
        found = [scan(directory, group, slots=slots) for group in chosen]
        for group, tables in zip(chosen, found):
            _replace(group, tables)
        return _report(chosen, found, time.perf_counter() - start)

    return manager.change_rows(change)


def _select(groups: Sequence[TableGroup], names: Sequence[str] | None) -> list[TableGroup]:
    there = [group.name for group in groups]
    unknown = sorted(set(names or ()) - set(there))
    if unknown:
        raise errors.InvalidOptionError(
            f"Invalid value for groups. Received: {', '.join(unknown)}. Expected: some of the TFRA "
            f"variables of the model: {', '.join(there)}."
        )
    return [group for group in groups if names is None or group.name in names]


def _replace(group: TableGroup, tables: dict[str, list[ShardFiles]]) -> None:
    group.clear()
    for shard in group.shards:
        shard.forget_rows()
    for name, parts in tables.items():
        for part in parts:
            _load(group, name, part)


def _load(group: TableGroup, name: str, part: ShardFiles) -> None:
    """Inserts the rows of a file into the shards they belong to, block by block."""
    tables = group.tables_of(name)
    block_rows = max(1, _BLOCK_BYTES // part.row_bytes)
    for first in range(0, part.rows, block_rows):
        rows = min(block_rows, part.rows - first)
        keys = read_numbers(
            part.keys_path, first * part.key_bytes, rows * part.key_bytes, group.key_dtype
        )
        dtype = tables[0].table._value_dtype
        values = read_numbers(
            part.values_path, first * part.row_bytes, rows * part.row_bytes, dtype
        )
        values = values.reshape(rows, -1)
        shards = group.shards_of(tf.constant(keys))
        _check_shards(group, shards)
        for attached in tables:
            here = shards == attached.shard.shard
            attached.table.insert(tf.constant(keys[here]), tf.constant(values[here]))


def read_numbers(path: str, offset: int, length: int, dtype: tf.DType) -> np.ndarray:
    """Returns some bytes of a file as numbers.

    Raises:
        CorruptCheckpointError: the file ends before.
        StorageError: it could not be read.
    """
    data = files.read_range(path, offset, length)
    if len(data) != length:
        raise errors.CorruptCheckpointError(
            f"{path!r} became shorter while it was read. Received: {len(data)} bytes at {offset}. "
            f"Expected: {length}. Import again when nobody writes it.",
            path=path,
            expected=length,
            received=len(data),
        )
    return np.frombuffer(data, dtype.as_numpy_dtype)


def _check_shards(group: TableGroup, shards: np.ndarray) -> None:
    wrong = shards[(shards < 0) | (shards >= group.num_shards)]
    if wrong.size:
        raise errors.IncompatibleModelError(
            f"The partition function of TFRA variable {group.name!r} names a shard that there is "
            f"not. Received: {wrong[0]}. Expected: from 0 to {group.num_shards - 1}."
        )


def _report(
    groups: Sequence[TableGroup], found: Sequence[dict[str, list[ShardFiles]]], seconds: float
) -> TfraImport:
    def rows_in(group: TableGroup, name: str) -> int:
        return sum(int(attached.table.size()) for attached in group.tables_of(name))

    empty = [
        f"{group.name}/{attached.name}"
        for group in groups
        for attached in group.shards[0].tables
        if rows_in(group, attached.name) == 0
    ]
    parts = [part for tables in found for of_table in tables.values() for part in of_table]
    report = TfraImport(
        rows=sum(rows_in(group, PARAMETER) for group in groups),
        bytes=sum(part.rows * (part.key_bytes + part.row_bytes) for part in parts),
        seconds=seconds,
        tables_without_rows=tuple(sorted(empty)),
    )
    logger.info("%d rows imported, %.1f MB, %.2f s", report.rows, report.bytes / 1e6, seconds)
    if empty:
        logger.warning(
            "the files gave nothing to %s; their rows start with the initial value",
            ", ".join(report.tables_without_rows),
        )
    return report
