# SPDX-License-Identifier: Apache-2.0
"""Exports a model for serving, with the rows it has or those of a checkpoint."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from adaptcp_tf._src.checkpoint.dense import check_variables
from adaptcp_tf._src.export.bundle import Bundle, TableRows, write_bundle
from adaptcp_tf._src.export.filling import fillings, rows_of, values_of
from adaptcp_tf._src.export.reading import open_checkpoint
from adaptcp_tf._src.export.report import SavedModelExport
from adaptcp_tf._src.export.servable import Servable
from adaptcp_tf._src.export.signatures import trace
from adaptcp_tf._src.export.staging import check_new
from adaptcp_tf._src.manifest import CheckpointStore, Manifest, identity
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.trees import new_tree
from adaptcp_tf._src.tables.tfra_serving import ServedTable, inference_mode

# A SavedModel exists when this file does.
MODEL_FILE = "saved_model.pb"


def saved_model(
    model: Any,
    directory: str | os.PathLike[str] | None = None,
    step: int | None = None,
    *,
    export_dir: str | os.PathLike[str],
    signatures: Any = None,
    extra_files: Mapping[str, bytes] | None = None,
) -> SavedModelExport:
    """Writes a SavedModel that serves the model where only TensorFlow and TFRA are installed.

    It holds signatures and what they use: TFRA's tables of embedding vectors and dense variables, but
    neither the optimizer with its slots nor any op of this package. `tf.saved_model.load`, TensorFlow
    Serving and the like load it, with TFRA's ops registered. Predictions are, bit for bit, those of a
    `tf.function` of the model that was trained.

    With `directory` the values are those of a checkpoint, and the model only tells what to compute. It
    needs neither optimizer nor rows, just the layers and names of the one that was trained. Either
    way the model stays as it is.

    In memory is a copy of one table at a time; of a checkpoint, besides, the rows of one TFRA variable.
    What is written for an `export_dir` that is not local is in the directory for temporary files first.

    Example:
        >>> acp.export.saved_model(model, export_dir="/models/ctr/1")
        >>> acp.export.saved_model(build_model(), "/data/run1", step=1200, export_dir="/models/ctr/2")

    Args:
        model: a Keras model that has been called, or another trackable; between training steps.
        directory: of the checkpoints; None exports the model as it is now.
        step: which checkpoint; None takes the newest.
        export_dir: directory to make; it must not exist, or be empty.
        signatures: what can be called: a `tf.function` with an input signature, or a dict of them by
            name. They are traced anew, for inference. None takes the call of a Keras model, with the
            names of its inputs and outputs.
        extra_files: contents of files to add, by their paths in `export_dir`.

    Returns:
        What was exported.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of it is missing or damaged.
        IncompatibleModelError: the checkpoint is of another model, or a signature updates tables.
        InvalidOptionError: `export_dir` is not empty, or the signatures cannot be exported.
        StorageError: a file could not be read or written.
    """
    start = time.perf_counter()
    out = files.normalize(export_dir)
    check_new(out, "a SavedModel must not be a mix of old and new files")
    checkpoint = None if directory is None else open_checkpoint(directory, step)
    with new_tree(out, last=MODEL_FILE) as tree:
        servable = _save_without_rows(model, signatures, tree)
        template = Bundle(tree)
        if checkpoint is None:
            report = _fill_as_it_is(servable, template, tree)
        else:
            report = _fill_from(*checkpoint, servable, template, tree)
        for name, content in (extra_files or {}).items():
            path = files.join(tree, name)
            files.make_dirs(os.path.dirname(path))
            files.write_durably(path, content)
    return dataclasses.replace(report, directory=out, seconds=time.perf_counter() - start)


def counted(tables: Iterator[TableRows], counts: list[int]) -> Iterator[TableRows]:
    """Yields the tables, and notes how many rows each has."""
    for table in tables:
        counts.append(table.rows)
        yield table


def report_of(
    manifest: Manifest | None, rows: int, size: int, out: str = "", seconds: float = 0.0
) -> SavedModelExport:
    """Makes the report of an export from a checkpoint, or of a model as it was."""
    return SavedModelExport(
        step=None if manifest is None else manifest.step,
        checkpoint=None if manifest is None else identity(manifest),
        directory=out,
        rows=rows,
        bytes=size,
        exact=manifest is None or manifest.exact,
        seconds=seconds,
    )


def _save_without_rows(model: Any, signatures: Any, directory: str) -> Servable:
    with inference_mode():
        functions = trace(model, signatures)
        servable = Servable(model, functions)
        servable.save(functions, directory)
    return servable


def _fill_as_it_is(servable: Servable, template: Bundle, tree: str) -> SavedModelExport:
    keys = template.tables()

    def live(served: ServedTable) -> TableRows:
        def blocks() -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
            # Copied when the turn of the table comes.
            yield served.rows()

        rows = int(served.table.size())
        return TableRows(keys[served.variable.name][served.shard], rows, blocks())

    tables = [live(served) for served in servable.tables]
    size = write_bundle(tree, template, [table.key for table in tables], tables, {})
    return report_of(None, sum(table.rows for table in tables), size)


def _fill_from(
    store: CheckpointStore, manifest: Manifest, servable: Servable, template: Bundle, tree: str
) -> SavedModelExport:
    variables = servable.variables
    if manifest.dense is not None:
        saved = tuple(v for v in manifest.dense.variables if v.key in variables)
        check_variables(dataclasses.replace(manifest.dense, variables=saved), variables)
    else:
        check_variables(None, variables)
    partitions = {t.variable.name: t.variable.partition_fn for t in servable.tables}
    found = fillings(manifest, template, partitions)
    names = {key: template.find_variable(key) for key in variables}
    counts: list[int] = []
    size = write_bundle(
        tree,
        template,
        [key for filling in found for key in filling.keys],
        counted(rows_of(store, manifest, found), counts),
        values_of(store, manifest, names),
    )
    return report_of(manifest, sum(counts), size)
