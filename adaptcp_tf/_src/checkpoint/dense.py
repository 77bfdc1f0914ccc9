# SPDX-License-Identifier: Apache-2.0
"""Dense variables: which belong to a checkpoint, their snapshot, and their bundle on disk."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import DenseBundle, DenseVariable
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import op_message, translated
from adaptcp_tf._src.tables import is_tfra_variable

_BUNDLE_NAME = "dense"
# Metrics depend on what the user compiles; a run may go on with others.
_OPTIONAL_PREFIX = "metrics/"


@dataclasses.dataclass(frozen=True)
class DenseSnapshot:
    """The values of the dense variables at a cut.

    Attributes:
        tensors: key -> value. These may be references: TensorFlow copies a variable's buffer when it
            is next assigned to, and only while the reference lives.
    """

    tensors: dict[str, tf.Tensor]


class DenseVariables(Protocol):
    """The dense variables of a training, wherever they are."""

    @property
    def specs(self) -> Mapping[str, tf.TensorSpec]:
        """Key -> what the variable is. Keys mean the same in every process."""

    def snapshot(self) -> DenseSnapshot:
        """Returns the values of this moment."""

    def assign(self, values: Mapping[str, tf.Tensor]) -> None:
        """Sets variables, by key."""


class ModelVariables:
    """Variables of eager TensorFlow, by key."""

    def __init__(self, variables: Mapping[str, tf.Variable]):
        self._variables = dict(variables)

    def items(self) -> Iterable[tuple[str, tf.Variable]]:
        """Key and variable of each."""
        return self._variables.items()

    @property
    def specs(self) -> Mapping[str, tf.TensorSpec]:
        """Key -> what the variable is."""
        return {k: tf.TensorSpec(v.shape, v.dtype) for k, v in self._variables.items()}

    def snapshot(self) -> DenseSnapshot:
        """Holds on to the current value of each variable, without copying it."""
        return DenseSnapshot(
            {
                key: tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
                for key, variable in self._variables.items()
            }
        )

    def assign(self, values: Mapping[str, tf.Tensor]) -> None:
        """Sets variables, by key."""
        for key, value in values.items():
            self._variables[key].assign(value)


def dense_variables(model: Any, optimizer: Any) -> ModelVariables:
    """Finds the dense variables of a training: weights, optimizer state, counters, metrics.

    Args:
        model: a Keras model or another trackable, or None.
        optimizer: its optimizer, or None; only one that the model does not hold itself matters.

    Returns:
        The variables. Keys are paths of attribute names from the root, so they do not depend on the
        names Keras makes up.
    """
    found: dict[str, tf.Variable] = {}
    seen: set[int] = set()
    roots = {"model": model, "optimizer": optimizer}
    for prefix, root in roots.items():
        if root is not None:
            _add(found, seen, _reachable(prefix, root))
    for prefix, holder in (("optimizer", getattr(model, "optimizer", None)), *roots.items()):
        _add(found, seen, _optimizer_weights(prefix, holder))
    _add(found, seen, _counters_and_metrics(model))
    return ModelVariables(found)


def _add(
    found: dict[str, tf.Variable], seen: set[int], more: Iterator[tuple[str, tf.Variable]]
) -> None:
    for key, variable in more:
        if id(variable) not in seen and not is_tfra_variable(variable):
            seen.add(id(variable))
            found[key] = variable


def _reachable(prefix: str, root: Any) -> Iterator[tuple[str, tf.Variable]]:
    """Breadth first, so that a variable shared by several owners gets its shortest path."""
    queue = collections.deque([(prefix, root)])
    visited = {id(root)}
    while queue:
        path, node = queue.popleft()
        if isinstance(node, tf.Variable):
            yield path, node
            continue
        for name, child in tf.train.TrackableView.children(node).items():
            if id(child) not in visited:
                visited.add(id(child))
                queue.append((f"{path}/{name}", child))


def _optimizer_weights(prefix: str, optimizer: Any) -> Iterator[tuple[str, tf.Variable]]:
    # Slots of legacy Keras optimizers are no attributes of theirs, so that no path leads there.
    weights = getattr(optimizer, "weights", None) if hasattr(optimizer, "get_slot_names") else None
    for i, variable in enumerate(weights or ()):
        yield f"{prefix}/weights/{i}", variable


def _counters_and_metrics(model: Any) -> Iterator[tuple[str, tf.Variable]]:
    counter = getattr(model, "_train_counter", None)
    if isinstance(counter, tf.Variable):
        yield "model/_train_counter", counter
    for i, metric in enumerate(getattr(model, "metrics", None) or ()):
        for j, variable in enumerate(metric.variables):
            yield f"{_OPTIONAL_PREFIX}{i}/{metric.name}/{j}", variable


def write_bundle(snapshot: DenseSnapshot, directory: str, relative_dir: str) -> DenseBundle | None:
    """Writes a snapshot as a TensorFlow tensor bundle; it is durable on return.

    Args:
        snapshot: what to write.
        directory: the existing directory of this attempt to save.
        relative_dir: the same, relative to the checkpoint directory.

    Returns:
        What the manifest says of it; None when there is no dense variable.

    Raises:
        StorageError: it could not be written.
    """
    if not snapshot.tensors:
        return None
    prefix = files.join(directory, _BUNDLE_NAME)
    keys = list(snapshot.tensors)
    with translated("write the dense variables to", prefix):
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=keys,
            shape_and_slices=[""] * len(keys),
            tensors=[snapshot.tensors[key] for key in keys],
        )
    names = [name for name in files.list_dir(directory) if name.startswith(f"{_BUNDLE_NAME}.")]
    paths = {name: files.join(directory, name) for name in names}
    for path in paths.values():
        files.sync_file(path)
    return DenseBundle(
        prefix=f"{relative_dir}/{_BUNDLE_NAME}",
        files={name: files.size(path) for name, path in paths.items()},
        variables=tuple(
            DenseVariable(key=key, dtype=tensor.dtype.name, shape=tuple(tensor.shape.as_list()))
            for key, tensor in snapshot.tensors.items()
        ),
    )


def check_variables(bundle: DenseBundle | None, variables: Mapping[str, tf.TensorSpec]) -> None:
    """Raises unless the saved dense variables are those of the model.

    Raises:
        IncompatibleModelError: some are missing on either side, or differ in dtype or shape.
    """
    saved = {} if bundle is None else {v.key: v for v in bundle.variables}
    required = [key for key in (*saved, *variables) if not key.startswith(_OPTIONAL_PREFIX)]
    differences = []
    for key in dict.fromkeys(required):
        there = _describe(saved[key].dtype, saved[key].shape) if key in saved else "nothing"
        here = "nothing"
        if key in variables:
            here = _describe(variables[key].dtype.name, variables[key].shape)
        if there != here:
            differences.append(f"{key}: saved {there}, the model has {here}")
    if differences:
        shown = "; ".join(differences[:5])
        raise errors.IncompatibleModelError(
            f"The dense variables of the checkpoint are not those of the model, {len(differences)} "
            f"differ. {shown}. Restore into the model and optimizer that the checkpoint was made "
            "with."
        )


def restore_variables(
    bundle: DenseBundle | None, paths: Mapping[str, str], variables: DenseVariables
) -> None:
    """Assigns the saved values; `check_variables` has passed.

    Args:
        bundle: what the manifest says of the dense variables.
        paths: where its files are, all in one directory, by their paths relative to that of the
            checkpoints.
        variables: the model's.

    Raises:
        StorageError: the bundle could not be read.
        CorruptCheckpointError: it is damaged.
    """
    if bundle is None:
        return
    variables.assign(read_values(bundle, paths, variables.specs))


def read_values(
    bundle: DenseBundle, paths: Mapping[str, str], keys: Collection[str]
) -> dict[str, tf.Tensor]:
    """Returns the saved values of those of the keys that were saved.

    Args:
        bundle: what the manifest says of the dense variables.
        paths: where its files are, all in one directory, by their paths relative to that of the
            checkpoints.
        keys: of the variables.

    Raises:
        StorageError: the bundle could not be read.
        CorruptCheckpointError: it is damaged.
    """
    wanted = [v for v in bundle.variables if v.key in keys]
    if not wanted:
        return {}
    index = ".index"
    prefix = paths[bundle.prefix + index][: -len(index)]
    try:
        with translated("read the dense variables from", prefix):
            values = tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=[v.key for v in wanted],
                shape_and_slices=[""] * len(wanted),
                dtypes=[tf.as_dtype(v.dtype) for v in wanted],
            )
    except errors.StorageError as error:
        if not isinstance(error.__cause__, (tf.errors.DataLossError, tf.errors.OutOfRangeError)):
            raise
        raise errors.CorruptCheckpointError(
            f"The dense variables {prefix!r} are damaged. Received: {op_message(error.__cause__)}. "
            "Restore another step.",
            path=prefix,
        ) from error
    return {saved.key: value for saved, value in zip(wanted, values)}


def _describe(dtype: str, shape: Any) -> str:
    return f"{dtype}{list(shape)}"
