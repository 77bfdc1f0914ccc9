# SPDX-License-Identifier: Apache-2.0
"""Writes what changed between two checkpoints, for tables that serve while training goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.export.reading import blocks_of, open_checkpoint, restored
from adaptcp_tf._src.export.staging import check_new
from adaptcp_tf._src.export.to_tfra import check_tfra_can_read
from adaptcp_tf._src.export.writers import new_writer
from adaptcp_tf._src.manifest import CheckpointStore, GroupSpec, Manifest, identity
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.trees import new_tree
from adaptcp_tf._src.tables.delta_listing import (
    DELTA_NAME,
    DeltaListing,
    DeltaTable,
    encode_delta,
)
from adaptcp_tf._src.tables.group import AttachedTable
from adaptcp_tf._src.tables.tfra_names import file_stem

_Checkpoint = tuple[CheckpointStore, Manifest]


@dataclasses.dataclass(frozen=True)
class DeltaExport:
    """What was exported.

    Attributes:
        from_step: of the checkpoint the delta starts from.
        to_step: of the checkpoint it leads to.
        directory: where the files are.
        rows: that are new or changed.
        removed: keys that were removed.
        bytes: of all files.
        exact: whether rows have every bit of what was trained, or the checkpoint was quantised.
        seconds: how long it took.
    """

    from_step: int
    to_step: int
    directory: str
    rows: int
    removed: int
    bytes: int
    exact: bool
    seconds: float


def delta(
    directory: str | os.PathLike[str],
    from_step: int,
    to_step: int,
    out: str | os.PathLike[str],
    *,
    format: str = "npz",
    num_threads: int = 2,
) -> DeltaExport:
    """Writes the rows that changed between two checkpoints, and the keys that were removed.

    Of embedding vectors only: neither slots nor dense variables are in it. `acp.importing.delta` applies
    it to a table that holds the rows of the first checkpoint, which then holds those of the second. The
    two are compared value by value, so it does not matter what lies between them.

    In memory are the embedding vectors of both checkpoints and a copy of one table, shard by shard, or
    all shards at once if their number changed.

    Example:
        >>> acp.export.delta("/data/run1", 1200, 1300, "/deltas/1300")

    Args:
        directory: of the checkpoints.
        from_step: the checkpoint that serves.
        to_step: the one that is to serve; a later one.
        out: directory to make; it must not exist, or be empty.
        format: of the files: "npz", "parquet" (needs pyarrow) or "tfra", TFRA's own, which
            `Variable.load_from_file_system` adds to what is in a table; `-removed` are keys to remove.
        num_threads: threads that read and insert.

    Returns:
        What was exported.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of them is missing or damaged.
        IncompatibleModelError: the checkpoints have other TFRA variables, or those have other rows.
        InvalidOptionError: the steps do not rise, `out` is not empty, there is no such format, pyarrow
            is missing, or string keys are to be written as TFRA's files.
        StorageError: a file could not be read or written.
    """
    start = time.perf_counter()
    if from_step >= to_step:
        raise errors.InvalidOptionError(
            f"Invalid value for to_step. Received: {to_step}. Expected: more than {from_step}, the "
            "step that the delta starts from."
        )
    out = files.normalize(out)
    check_new(out, "files of two deltas must not mix")
    before, after = (open_checkpoint(directory, step) for step in (from_step, to_step))
    _check(before[1], after[1], format)
    groups = {group.name: group for group in before[1].groups}
    with new_tree(out, last=DELTA_NAME) as tree:
        tables = [
            _write_group(
                tree, format, number, (before, groups[group.name]), (after, group), num_threads
            )
            for number, group in enumerate(after[1].groups)
        ]
        listing = DeltaListing(
            row_format=format,
            from_step=from_step,
            to_step=to_step,
            from_checkpoint=identity(before[1]),
            to_checkpoint=identity(after[1]),
            exact=before[1].exact and after[1].exact,
            tables=tuple(tables),
        )
        content = encode_delta(listing)
        files.write_durably(files.join(tree, DELTA_NAME), content)
    written = [file for table in tables for file in (*table.files, *table.removed_files)]
    return DeltaExport(
        from_step=from_step,
        to_step=to_step,
        directory=out,
        rows=sum(table.rows for table in tables),
        removed=sum(table.removed for table in tables),
        bytes=sum(file.bytes for file in written) + len(content),
        exact=listing.exact,
        seconds=time.perf_counter() - start,
    )


def _check(before: Manifest, after: Manifest, row_format: str) -> None:
    def layouts(manifest: Manifest) -> dict[str, str]:
        return {
            group.name: f"{group.key_dtype} keys, rows of {group.tables[0].dim} "
            f"{group.tables[0].dtype}"
            for group in manifest.groups
        }

    if layouts(before) != layouts(after):
        raise errors.IncompatibleModelError(
            f"Steps {before.step} and {after.step} have other TFRA variables. Received: "
            f"{layouts(after)}. Expected: {layouts(before)}. Export step {after.step} in full."
        )
    if row_format == "tfra":
        check_tfra_can_read((group.name, group.key_dtype) for group in after.groups)


def _write_group(
    tree: str,
    row_format: str,
    number: int,
    before: tuple[_Checkpoint, GroupSpec],
    after: tuple[_Checkpoint, GroupSpec],
    num_threads: int,
) -> DeltaTable:
    group = after[1]
    stem = file_stem(group.name, 0, 1) if row_format == "tfra" else f"g{number}"
    changed = new_writer(row_format, tree, stem)
    removed = new_writer(row_format, tree, stem if row_format == "tfra" else f"{stem}-removed")
    for old, new in _shards(before, after, num_threads):
        for keys, values in _changed(old, new):
            changed.write(keys, values)
        for keys in _removed(old, new):
            removed.write(keys, None)
    return DeltaTable(
        variable=group.name,
        key_dtype=group.key_dtype,
        dtype=group.tables[0].dtype,
        dim=group.tables[0].dim,
        files=tuple(changed.close()),
        removed_files=tuple(removed.close()),
    )


def _shards(
    before: tuple[_Checkpoint, GroupSpec], after: tuple[_Checkpoint, GroupSpec], num_threads: int
) -> Iterator[tuple[AttachedTable, AttachedTable]]:
    """Yields the parameter tables of a group as they were and as they are."""
    same = before[1].num_shards == after[1].num_shards
    for shard in range(after[1].num_shards) if same else [None]:
        with contextlib.ExitStack() as stack:
            groups = [
                stack.enter_context(
                    restored(*checkpoint, spec, shard=shard, slots=False, num_threads=num_threads)
                )
                for checkpoint, spec in (before, after)
            ]
            old, new = (group.shards[0].tables[0] for group in groups)
            yield old, new


def _changed(old: AttachedTable, new: AttachedTable) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    for keys, values in blocks_of(new):
        before, exists = old.table.lookup(keys, return_exists=True)
        # Bytes, since a NaN is not equal to itself and 0.0 is equal to -0.0.
        same = (_bytes(values) == _bytes(before)).all(axis=1) & exists.numpy()
        if not same.all():
            yield tf.boolean_mask(keys, ~same), tf.boolean_mask(values, ~same)


def _removed(old: AttachedTable, new: AttachedTable) -> Iterator[tf.Tensor]:
    for keys, _ in blocks_of(old):
        _, exists = new.table.lookup(keys, return_exists=True)
        if not exists.numpy().all():
            yield tf.boolean_mask(keys, ~exists)


def _bytes(values: tf.Tensor) -> np.ndarray:
    return np.ascontiguousarray(values.numpy()).view(np.uint8).reshape(len(values), -1)
