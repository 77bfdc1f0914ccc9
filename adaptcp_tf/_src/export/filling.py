# SPDX-License-Identifier: Apache-2.0
"""Fills the tables and dense variables of a SavedModel from a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Optional

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.dense import read_values
from adaptcp_tf._src.export.bundle import Bundle, TableRows
from adaptcp_tf._src.export.progress import Progress, Watch, nobody_watches
from adaptcp_tf._src.export.reading import blocks_of, restored
from adaptcp_tf._src.manifest import CheckpointStore, GroupSpec, Manifest, TableSpec
from adaptcp_tf._src.tables.group import AttachedTable
from adaptcp_tf._src.tables.tfra_names import variable_name

# From keys and the number of shards to the shard of each.
Partition = Optional[Callable[[tf.Tensor, int], tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Filling:
    """What a table group of a checkpoint is to fill.

    Attributes:
        group: of the checkpoint.
        tables: by the name of a table, the names of its tensors in the bundle, one a shard.
        partition: the variable's partition function; None when it is not known.
    """

    group: GroupSpec
    tables: Mapping[str, Sequence[str]]
    partition: Partition

    @property
    def keys(self) -> list[str]:
        """The names of all its tables' tensors."""
        return [key for shards in self.tables.values() for key in shards]

    @property
    def num_shards(self) -> int:
        """Over how many tables the served variable is spread."""
        return max(len(shards) for shards in self.tables.values())


def fillings(
    manifest: Manifest, bundle: Bundle, partitions: Mapping[str, Partition]
) -> list[Filling]:
    """Finds the groups of a checkpoint that the tables of a bundle are of.

    Args:
        manifest: the checkpoint.
        bundle: the bundle.
        partitions: partition functions by TFRA variable, as far as they are known.

    Raises:
        IncompatibleModelError: a table of the bundle is not in the checkpoint, has other rows, or has
            shards that the rows cannot be spread over.
    """
    left = bundle.tables()
    found = []
    for group in manifest.groups:
        tables = {}
        for table in group.tables:
            keys = left.pop(variable_name(group.name, table.name), None)
            if keys is not None:
                _check_rows(manifest, bundle, group, table, keys[0])
                tables[table.name] = keys
        if tables:
            found.append(Filling(group, tables, partitions.get(group.name)))
            _check_shards(found[-1])
    if left:
        raise errors.IncompatibleModelError(
            f"TFRA variables of the model are not in the checkpoint of step {manifest.step}. "
            f"Received: {', '.join(sorted(left))}. Expected: some of "
            f"{', '.join(group.name for group in manifest.groups) or 'none'}. Use the model that "
            "was trained, with the names it had."
        )
    return found


def rows_of(
    store: CheckpointStore,
    manifest: Manifest,
    found: Sequence[Filling],
    watch: Watch = nobody_watches,
) -> Iterator[TableRows]:
    """Yields the rows of every table; those of one are freed when the next is asked for."""
    filled = {filling.group.name for filling in found}
    progress = Progress((s for s in manifest.segments if s.group in filled), watch)
    for filling in found:
        group = filling.group
        slots = any(table.name in filling.tables for table in group.tables[1:])
        if filling.num_shards > 1 and filling.partition is None:
            # As they were saved.
            for shard in range(group.num_shards):
                with restored(
                    store, manifest, group, shard=shard, slots=slots, progress=progress
                ) as tables:
                    for attached in tables.shards[0].tables:
                        yield from _rows_of(filling, attached, shard, progress)
            continue
        partition = None
        if filling.num_shards > 1:
            partition = (filling.num_shards, filling.partition)
        with restored(
            store, manifest, group, slots=slots, partition=partition, progress=progress
        ) as tables:
            for shard in tables.shards:
                for attached in shard.tables:
                    yield from _rows_of(filling, attached, shard.shard, progress)


def values_of(
    store: CheckpointStore, manifest: Manifest, names: Mapping[str, str]
) -> dict[str, tf.Tensor]:
    """Returns dense variables of a checkpoint.

    Args:
        store: where it is.
        manifest: which.
        names: the names of their tensors in a bundle, by their keys in the checkpoint.

    Returns:
        The values by the names in the bundle.
    """
    if manifest.dense is None:
        return {}
    paths = {path: store.path(path) for path in manifest.dense.paths()}
    values = read_values(manifest.dense, paths, names)
    return {names[key]: value for key, value in values.items()}


def _rows_of(
    filling: Filling, attached: AttachedTable, shard: int, progress: Progress
) -> Iterator[TableRows]:
    keys = filling.tables.get(attached.name)
    if keys is not None:
        blocks = progress.counted(blocks_of(attached))
        yield TableRows(keys[shard], int(attached.table.size()), blocks)


def _check_rows(
    manifest: Manifest, bundle: Bundle, group: GroupSpec, table: TableSpec, key: str
) -> None:
    key_dtype, dtype, dim = bundle.layout(key)
    here = f"{key_dtype.name} keys, rows of {dim} {dtype.name}"
    there = f"{group.key_dtype} keys, rows of {table.dim} {table.dtype}"
    if here != there:
        raise errors.IncompatibleModelError(
            f"TFRA variable {variable_name(group.name, table.name)!r} of the model has other rows "
            f"than in the checkpoint of step {manifest.step}. Received: {here}. Expected: {there}."
        )


def _check_shards(filling: Filling) -> None:
    shards = filling.num_shards
    if shards > 1 and filling.partition is None and shards != filling.group.num_shards:
        raise errors.IncompatibleModelError(
            f"The rows of TFRA variable {filling.group.name!r} cannot be spread over the tables of "
            f"the SavedModel, whose partition function is not known. Received: {shards} tables. "
            f"Expected: one, or {filling.group.num_shards} as in the checkpoint. Make the SavedModel "
            "with as many devices, or export the model itself with acp.export.saved_model."
        )
