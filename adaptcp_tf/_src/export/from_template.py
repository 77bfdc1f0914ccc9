# SPDX-License-Identifier: Apache-2.0
"""Exports a checkpoint for serving without the model's code: a SavedModel, with other rows."""

from __future__ import annotations

import os
import time

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.export.bundle import Bundle, write_bundle
from adaptcp_tf._src.export.filling import fillings, rows_of, values_of
from adaptcp_tf._src.export.progress import Watch, nobody_watches
from adaptcp_tf._src.export.reading import open_checkpoint
from adaptcp_tf._src.export.report import SavedModelExport
from adaptcp_tf._src.export.saved_model import MODEL_FILE, counted, report_of
from adaptcp_tf._src.export.servable import check_without_ops_of_ours
from adaptcp_tf._src.export.staging import check_new
from adaptcp_tf._src.manifest import Manifest
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.trees import copy_file, files_below, new_tree

_VARIABLES = "variables/"
# Keras keeps the metrics of a model there, which nobody serves.
_KERAS_STATE = "keras_api/"


def saved_model_from_template(
    template: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    step: int | None = None,
    *,
    export_dir: str | os.PathLike[str],
    watch: Watch = nobody_watches,
) -> SavedModelExport:
    """Copies a SavedModel, with the rows and dense variables of a checkpoint in place of its own.

    Needs no code of the model. The SavedModel may come from `acp.export.saved_model`, from
    `model.save` or `tf.saved_model.save` of the model that was trained, at any time of its training.
    It is left as it is.

    In memory are the rows of one TFRA variable, and a copy of one of its tables.

    Example:
        >>> acp.export.saved_model_from_template("/models/ctr/1", "/data/run1", export_dir="/models/ctr/2")

    Args:
        template: the SavedModel.
        directory: of the checkpoints.
        step: which checkpoint; None takes the newest.
        export_dir: directory to make; it must not exist, or be empty.
        watch: called now and then with the bytes of the checkpoint that are done, and all of them.

    Returns:
        What was exported.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of it is missing or damaged.
        IncompatibleModelError: the SavedModel is of another model, has an op of this package, or
            several tables a variable, another number than was trained.
        InvalidOptionError: `export_dir` is not empty.
        StorageError: a file could not be read or written; among others if `template` is not there.
    """
    start = time.perf_counter()
    template, out = files.normalize(template), files.normalize(export_dir)
    check_new(out, "a SavedModel must not be a mix of old and new files")
    check_without_ops_of_ours(template)
    store, manifest = open_checkpoint(directory, step)
    bundle = Bundle(template)
    found = fillings(manifest, bundle, {})
    names = _dense_names(manifest, bundle)
    counts: list[int] = []
    with new_tree(out, last=MODEL_FILE) as tree:
        for name in files_below(template):
            if not name.startswith(_VARIABLES):
                copy_file(files.join(template, name), files.join(tree, name))
        size = write_bundle(
            tree,
            bundle,
            [key for filling in found for key in filling.keys],
            counted(rows_of(store, manifest, found, watch), counts),
            values_of(store, manifest, names),
        )
    return report_of(manifest, sum(counts), size, out, time.perf_counter() - start)


def _dense_names(manifest: Manifest, bundle: Bundle) -> dict[str, str]:
    """Names of tensors in the bundle by the keys of dense variables; all that matter are found."""
    names = {}
    for variable in manifest.dense.variables if manifest.dense is not None else ():
        # Our own exports know them by their keys, others by the paths that these keys are.
        name = bundle.find_variable(variable.key)
        if name is None:
            name = bundle.find_variable(variable.key.split("/", 1)[-1])
        if name is None:
            continue
        here = f"{bundle.dtypes[name].name}{list(bundle.shapes[name])}"
        there = f"{tf.as_dtype(variable.dtype).name}{list(variable.shape)}"
        if here != there:
            raise errors.IncompatibleModelError(
                f"The dense variable {variable.key!r} of the checkpoint of step {manifest.step} is "
                f"another one in the SavedModel. Received: {here}. Expected: {there}."
            )
        names[variable.key] = name
    left = [
        name
        for name in sorted(set(bundle.variables()) - set(names.values()))
        # TFRA's views of rows hold nothing.
        if not name.startswith(_KERAS_STATE) and 0 not in bundle.shapes[name]
    ]
    if left:
        raise errors.IncompatibleModelError(
            "Dense variables of the SavedModel are not in the checkpoint of step "
            f"{manifest.step}. Received: {', '.join(left[:5])}. Expected: those of the model that "
            "was trained."
        )
    return names
