# SPDX-License-Identifier: Apache-2.0
"""Applies deltas, in order, to tables that serve."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.importing.readers import read_blocks
from adaptcp_tf._src.storage import checksums, files
from adaptcp_tf._src.tables.delta_listing import (
    DELTA_NAME,
    DeltaListing,
    DeltaTable,
    RowFile,
    decode_delta,
)
from adaptcp_tf._src.tables.tfra_serving import ServingVariable, serving_variables


@dataclasses.dataclass(frozen=True)
class DeltaImport:
    """What tables hold after a delta.

    Attributes:
        step: of the checkpoint whose rows they hold.
        checkpoint: what tells it from others of the same step.
        rows: that were inserted.
        removed: keys that were removed.
        exact: whether the delta has every bit of what was trained, or its checkpoints were quantised.
        seconds: how long it took.
    """

    step: int
    checkpoint: str
    rows: int
    removed: int
    exact: bool
    seconds: float


def delta(target: Any, directory: str | os.PathLike[str], *, at: Any) -> DeltaImport:
    """Applies what `acp.export.delta` wrote to tables that serve.

    All files are read and compared with their checksums before anything changes. They are read again
    as rows change, block by block, while lookups go on, so that a lookup meanwhile may see old rows
    and new ones. If the store fails then, apply the same delta again. Slots and dense variables stay.

    Example:
        >>> served = tf.saved_model.load("/models/ctr/1200")
        >>> state = acp.importing.delta(served, "/deltas/1300", at=1200)
        >>> state = acp.importing.delta(served, "/deltas/1400", at=state)

    Args:
        target: a model, a list of TFRA variables, or what `tf.saved_model.load` returned.
        directory: of the delta.
        at: the step of the checkpoint whose rows the tables hold; or what the export or the delta
            before this one returned, so that the checkpoint of another run is noticed as well.

    Returns:
        What the tables hold now.

    Raises:
        DeltaOrderError: the delta starts from another checkpoint; one is missing or out of order.
        CorruptCheckpointError: a file is missing or damaged.
        IncompatibleModelError: a variable of the delta is not there, or has other rows.
        InvalidOptionError: `at` is neither a step nor a report of one; pyarrow is needed and missing;
            or a loaded SavedModel has several tables a variable.
        StorageError: a file could not be read.
    """
    start = time.perf_counter()
    directory = files.normalize(directory)
    path = files.join(directory, DELTA_NAME)
    listing = decode_delta(files.read_bytes(path), path)
    _check_order(listing, directory, at)
    variables = serving_variables(target)
    for table in listing.tables:
        _check_table(table, directory, variables)
    for table in listing.tables:
        for file in (*table.files, *table.removed_files):
            _check_file(file, directory)
    for table in listing.tables:
        _apply(listing, table, directory, variables[table.variable])
    return DeltaImport(
        step=listing.to_step,
        checkpoint=listing.to_checkpoint,
        rows=sum(table.rows for table in listing.tables),
        removed=sum(table.removed for table in listing.tables),
        exact=listing.exact,
        seconds=time.perf_counter() - start,
    )


def _check_order(listing: DeltaListing, directory: str, at: Any) -> None:
    step = getattr(at, "step", at)
    if isinstance(step, bool) or not isinstance(step, int):
        raise errors.InvalidOptionError(
            f"Invalid value for at. Received: {at!r}. Expected: the step of the checkpoint whose rows "
            "the tables hold, or what the export or the delta before this one returned."
        )
    if step != listing.from_step:
        raise errors.DeltaOrderError(
            f"The delta {directory!r} leads from step {listing.from_step} to {listing.to_step}. "
            f"Received: tables at step {step}. Expected: at step {listing.from_step}. A delta is "
            "missing, was applied before, or is out of order: apply those in between first, or load "
            "a full export."
        )
    checkpoint = getattr(at, "checkpoint", None)
    if checkpoint is not None and checkpoint != listing.from_checkpoint:
        raise errors.DeltaOrderError(
            f"The delta {directory!r} starts from another checkpoint of step {step}. Received: tables "
            f"that hold {checkpoint}. Expected: {listing.from_checkpoint}. It is of another run, or "
            "the run was repeated: load a full export."
        )


def _check_table(table: DeltaTable, directory: str, variables: dict[str, ServingVariable]) -> None:
    variable = variables.get(table.variable)
    if variable is None:
        raise errors.IncompatibleModelError(
            f"TFRA variable {table.variable!r} of the delta {directory!r} is not served. Received: "
            f"{', '.join(sorted(variables)) or 'none'}. Expected: all variables of the delta."
        )
    layout = (table.key_dtype, table.dtype, table.dim)
    if variable.layout not in (None, layout):
        raise errors.IncompatibleModelError(
            f"TFRA variable {table.variable!r} has other rows than the delta {directory!r}. Received: "
            f"{variable.layout}. Expected: {layout}."
        )


def _check_file(file: RowFile, directory: str) -> None:
    """Reads a file whole: every bit is known to be right before the first row changes."""
    path = files.join(directory, file.name)
    size = files.size(path) if files.exists(path) else None
    if size != file.bytes:
        raise errors.CorruptCheckpointError(
            f"{path!r} is missing or was cut. Received: "
            f"{'no file' if size is None else f'{size} bytes'}. Expected: {file.bytes} bytes. "
            "Nothing was applied. Copy the delta again.",
            path=path,
            expected=file.bytes,
            received=size,
        )
    checksum = checksums.of_file(path)
    if checksum != file.checksum:
        raise errors.CorruptCheckpointError(
            f"{path!r} is damaged, or another file. Received: {checksum}. Expected: "
            f"{file.checksum}. Nothing was applied. Copy the delta again.",
            path=path,
            expected=file.checksum,
            received=checksum,
        )


def _apply(
    listing: DeltaListing, table: DeltaTable, directory: str, variable: ServingVariable
) -> None:
    # A key that moved to another shard is in both.
    for keys, _ in read_blocks(listing.row_format, directory, table, removed=True):
        variable.remove(tf.constant(keys))
    for keys, values in read_blocks(listing.row_format, directory, table, removed=False):
        variable.upsert(tf.constant(keys), tf.constant(values))
