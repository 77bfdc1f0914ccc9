# SPDX-License-Identifier: Apache-2.0
"""The object that is saved for serving: signatures, and only what they use."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.dense import dense_variables
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.tables.tfra_serving import TABLES_OF, ServedTable, served_tables

_OURS = "Adaptcp"
# TFRA's ops have a name space of their own, which must be allowed.
_OPTIONS = tf.saved_model.SaveOptions(namespace_whitelist=["TFRA"])


class Servable:
    """What signatures use of a model.

    Attributes:
        root: the trackable to save.
        tables: its TFRA tables.
        variables: its dense variables, by their keys in checkpoints.

    Args:
        model: the model.
        functions: concrete functions, by the name of the signature.

    Raises:
        InvalidOptionError: a function uses something that is not in the model.
    """

    def __init__(self, model: Any, functions: Mapping[str, Any]):
        self.root = tf.Module()
        self._holders: dict[str, tf.Module] = {}
        used = _resources(functions)
        found = served_tables(model)
        self.tables = [t for t in found if id(t.table.resource_handle) in used]
        for served in self.tables:
            self._track_table(served)
            del used[id(served.table.resource_handle)]
        self.variables: dict[str, tf.Variable] = {}
        for key, variable in dense_variables(model, None).items():
            if used.pop(id(variable.handle), None):
                self.root._track_trackable(variable, key)
                self.variables[key] = variable
        for path, handle, node in _other_resources(model):
            if used.pop(id(handle), None):
                self.root._track_trackable(node, path)
        if used:
            raise _not_in_model(list(used.values()))

    def _track_table(self, served: ServedTable) -> None:
        # As TFRA's variables track their tables.
        name = TABLES_OF + served.variable.name
        if name not in self._holders:
            self._holders[name] = tf.Module()
            self.root._track_trackable(self._holders[name], name)
        self._holders[name]._track_trackable(served.without_rows(), str(served.shard))

    def save(self, functions: Mapping[str, Any], directory: str) -> None:
        """Writes the SavedModel, with tables that have no rows yet."""
        with translated("write the model to", directory):
            tf.saved_model.save(self.root, directory, signatures=dict(functions), options=_OPTIONS)
        check_without_ops_of_ours(directory)


def check_without_ops_of_ours(directory: str) -> None:
    """Raises unless a SavedModel can be used where this package is not.

    Raises:
        IncompatibleModelError: a function of it has an op of ours.
        StorageError: it could not be read.
    """
    path = files.join(directory, "saved_model.pb")
    model = saved_model_pb2.SavedModel.FromString(files.read_bytes(path))
    for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
        bodies = [("its graph", graph.node)]
        bodies += [(f.signature.name, f.node_def) for f in graph.library.function]
        for name, nodes in bodies:
            ours = sorted({node.op for node in nodes if node.op.startswith(_OURS)})
            if ours:
                raise errors.IncompatibleModelError(
                    f"The model cannot be served without adaptcp_tf. Received: {', '.join(ours)} in "
                    f"{name}. Expected: functions that do not train. Export the model with "
                    "signatures that only predict."
                )


def _resources(functions: Mapping[str, Any]) -> dict[int, tuple[str, tf.Tensor]]:
    """What functions capture and only lives in this process, with the signature's name."""
    captured: dict[int, tuple[str, tf.Tensor]] = {}
    for name, function in functions.items():
        for tensor in function.captured_inputs:
            if tensor.dtype in (tf.resource, tf.variant):
                captured[id(tensor)] = (name, tensor)
    return captured


def _other_resources(model: Any) -> Iterator[tuple[str, tf.Tensor, Any]]:
    """Yields path, handle and object of the lookup tables and the like in a model."""
    queue = collections.deque([("model", model)])
    visited = {id(model)}
    while queue:
        path, node = queue.popleft()
        handle = getattr(node, "resource_handle", None)
        if isinstance(handle, tf.Tensor) and not isinstance(node, tf.Variable):
            yield path, handle, node
        for name, child in tf.train.TrackableView.children(node).items():
            if id(child) not in visited:
                visited.add(id(child))
                queue.append((f"{path}/{name}", child))


def _not_in_model(left: list[tuple[str, tf.Tensor]]) -> errors.InvalidOptionError:
    described = ", ".join(sorted({f"{tensor} in signature {name!r}" for name, tensor in left}))
    return errors.InvalidOptionError(
        "A signature uses what is not in the model, or was traced for training. Received: "
        f"{described}. Expected: functions of the model's variables, given as tf.function with an "
        "input_signature, so that they are traced anew."
    )
