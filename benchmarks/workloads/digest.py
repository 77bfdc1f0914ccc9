# SPDX-License-Identifier: Apache-2.0
"""A SHA-256 over all that training changes: two models with equal digests are equal bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de


class Digest(NamedTuple):
    """What `digest` found.

    total: hexadecimal SHA-256 over all parts.
    parts: one digest per table, dense variable and metric, in order, to name what differs.
    rows: rows in the parameter tables.
    iterations: steps the optimizer has taken.
    """

    total: str
    parts: dict[str, str]
    rows: int
    iterations: int

    def write(self, path: Path | str) -> None:
        """Writes the digest as JSON; equal digests give equal files."""
        Path(path).write_text(json.dumps(self._asdict(), indent=1) + "\n", encoding="ascii")


def embeddings(model: tf.keras.Model) -> list[de.keras.layers.Embedding]:
    """The dynamic embedding layers of a model, nested ones included, in order of creation."""
    return [part for part in model.submodules if isinstance(part, de.keras.layers.Embedding)]


def tables(model: tf.keras.Model) -> list[list[de.Variable]]:
    """The embedding tables of a model, each followed by its optimizer slots if they exist yet."""
    return [[layer.params, *layer.optimizer_vars] for layer in embeddings(model)]


def digest(model: tf.keras.Model, optimizer: tf.keras.optimizers.Optimizer | None = None) -> Digest:
    """Digests rows, slots, dense variables, optimizer state and metrics of a model.

    The order in which a hash table holds its rows does not count, nor do names, so that models of
    different names in one process can be compared. Training must be at rest meanwhile.

    Args:
      model: what was trained.
      optimizer: what trained it; None takes the one that the model was compiled with.
    """
    optimizer = model.optimizer if optimizer is None else optimizer
    parts, rows = {}, 0
    for index, group in enumerate(tables(model)):
        for place, variable in enumerate(group):
            keys, values = (tensor.numpy() for tensor in variable.export())
            parts[f"table {index}.{place}"] = _hash_rows(keys, values)
            rows += len(keys) if place == 0 else 0
    for kind, variables in _dense_variables(model, optimizer).items():
        for index, variable in enumerate(variables):
            parts[f"{kind} {index}"] = _hash(variable.numpy())
    # Keras does not count this one among the optimizer's variables.
    parts["learning rate"] = _hash(tf.convert_to_tensor(optimizer.learning_rate).numpy())
    return Digest(_total(parts), parts, rows, int(optimizer.iterations.numpy()))


class SessionDigest(tf.compat.v1.train.SessionRunHook):
    """Digests what a TF1 session has trained, when it ends: tables, slots and global variables.

    Args:
      path: file that gets the digest.
    """

    def __init__(self, path: Path | str):
        self._path = path

    def begin(self) -> None:
        """Adds to the graph what reads the tables."""
        self._groups = []
        for view in tf.compat.v1.trainable_variables():
            if isinstance(view, de.TrainableWrapper):
                slots = view._optimizer_vars
                slots = list(getattr(slots, "value", slots))
                self._groups.append([table.export() for table in (view.params, *slots)])
        self._dense = {
            variable.op.name: variable
            for variable in tf.compat.v1.global_variables()
            if not isinstance(variable, de.TrainableWrapper)
        }

    def end(self, session: tf.compat.v1.Session) -> None:
        """Writes the digest."""
        groups, dense = session.run([self._groups, self._dense])
        parts = {
            f"table {index}.{place}": _hash_rows(keys, values)
            for index, group in enumerate(groups)
            for place, (keys, values) in enumerate(group)
        }
        parts.update({f"variable {name}": _hash(value) for name, value in sorted(dense.items())})
        rows = sum(len(group[0][0]) for group in groups)
        steps = int(dense[tf.compat.v1.GraphKeys.GLOBAL_STEP])
        Digest(_total(parts), parts, rows, steps).write(self._path)


def _dense_variables(
    model: tf.keras.Model, optimizer: tf.keras.optimizers.Optimizer
) -> dict[str, list[tf.Variable]]:
    of_optimizer = optimizer.variables
    if callable(of_optimizer):  # a method in the legacy optimizers, a property in the new ones
        of_optimizer = of_optimizer()
    found = {
        "variable": model.variables,
        "optimizer": of_optimizer,
        "metric": [variable for metric in model.metrics for variable in metric.variables],
    }
    # These hold ids and rows of the last batch on their way between a table and the model.
    passing = {
        id(variable)
        for layer in embeddings(model)
        for variable in (layer.shadow.ids, layer.shadow.exists)
    }
    return {
        kind: [
            variable
            for variable in variables
            if not isinstance(variable, de.TrainableWrapper) and id(variable) not in passing
        ]
        for kind, variables in found.items()
    }


def _total(parts: dict[str, str]) -> str:
    listed = "\n".join(f"{name} {value}" for name, value in parts.items())
    return hashlib.sha256(listed.encode()).hexdigest()


def _hash_rows(keys: np.ndarray, values: np.ndarray) -> str:
    order = np.argsort(keys)
    return _hash(keys[order], values[order])


def _hash(*arrays: np.ndarray) -> str:
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
