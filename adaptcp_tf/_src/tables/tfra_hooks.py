# SPDX-License-Identifier: Apache-2.0
"""The hooks in TFRA's lookups and updates: what changes a tracked table goes through its tracker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record

from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.tables import tfra_own as own
from adaptcp_tf._src.tables.group import PARAMETER
from adaptcp_tf._src.tables.tfra import export_keys, tracked
from adaptcp_tf._src.tables.tfra_variables import register


def install() -> None:
    """Puts the hooks into TFRA, for the whole process."""
    own.de.Variable.__init__ = _hooked_init_variable
    own.Table.lookup = _hooked_lookup
    own.Table.insert = _hooked_insert
    own.Table.remove = _hooked_remove
    own.Table.accum = _hooked_accum
    own.Table.clear = _hooked_clear
    own.Table.load_from_file_system = _hooked_load_from_file_system
    own.Table._Saveable.restore = _hooked_restore_saveable


def _after(*operations: Any) -> Any:
    return tf.control_dependencies([operation for operation in operations if operation is not None])


def _hooked_init_variable(self: own.de.Variable, *args: Any, **kwargs: Any) -> None:
    own.init_variable(self, *args, **kwargs)
    register(self)


def _hooked_lookup(self: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    # Under a gradient tape the rows that are looked up are about to be updated. Elsewhere, as in
    # exported models, no op of ours may appear.
    attached = tracked(self) if record.could_possibly_record() else None
    if attached is not None and attached.name == PARAMETER:
        keys = tf.convert_to_tensor(keys, self._key_dtype)
        with _after(attached.attach_op), tf.device(attached.shard.device):
            ops.adaptcp_will_update(attached.shard.handle, keys)
    return own.lookup(self, keys, *args, **kwargs)


def _hooked_insert(self: Any, keys: Any, values: Any, name: str | None = None) -> Any:
    attached = tracked(self)
    if attached is None:
        return own.insert(self, keys, values, name)
    keys = tf.convert_to_tensor(keys, self._key_dtype)
    values = tf.convert_to_tensor(values, self._value_dtype)
    with _after(attached.attach_op), tf.device(attached.shard.device):
        return ops.adaptcp_insert(
            attached.handle,
            self.resource_handle,
            keys,
            values,
            table_index=attached.index,
            keep_values=_is_tensorflows_own(values),
            name=name,
        )


def _is_tensorflows_own(tensor: tf.Tensor) -> bool:
    """Whether nothing but TensorFlow can change a tensor's memory, as far as can be told.

    Tensors from Python functions, datasets' generators and arguments may share the memory of a NumPy
    array. What an optimizer inserts is read from a variable, and then split if there are shards.
    """
    if tf.executing_eagerly():
        return False
    operation = tensor.op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    return operation.type in ("ReadVariableOp", "DynamicPartition")


def _hooked_remove(self: Any, keys: Any, name: str | None = None) -> Any:
    attached = tracked(self)
    if attached is None or keys.dtype != self._key_dtype:
        return own.remove(self, keys, name)
    with _after(attached.attach_op), tf.device(attached.shard.device):
        return ops.adaptcp_remove(
            attached.handle,
            self.resource_handle,
            keys,
            table_index=attached.index,
            name=name,
        )


def _hooked_accum(
    self: Any, keys: Any, values_or_deltas: Any, exists: Any, name: str | None = None
) -> Any:
    attached = tracked(self)
    if attached is None:
        return own.accum(self, keys, values_or_deltas, exists, name)
    keys = tf.convert_to_tensor(keys, self._key_dtype)
    with _after(attached.attach_op), tf.device(attached.shard.device):
        before = ops.adaptcp_before_update(attached.handle, keys)
    with _after(before):
        changed = own.accum(self, keys, values_or_deltas, exists, name)
    with _after(changed), tf.device(attached.shard.device):
        return ops.adaptcp_after_update(attached.handle, keys)


def _replace(table: Any, change: Callable[[], Any]) -> Any:
    """Runs a change of a whole table between the tracker's brackets."""
    attached = tracked(table)
    if attached is None:
        return change()
    shard = attached.shard
    with _after(attached.attach_op), tf.device(shard.device):
        before = ops.adaptcp_before_replace(attached.handle)
    with _after(before):
        changed = change()
    with _after(changed), tf.device(shard.device):
        keys = tf.concat([export_keys(other) for other in shard.tables], axis=0)
        tables = [other.table.resource_handle for other in shard.tables]
        return ops.adaptcp_after_replace(attached.handle, keys, tables)


def _hooked_clear(self: Any, name: str | None = None) -> Any:
    return _replace(self, lambda: own.clear(self, name))


def _hooked_load_from_file_system(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _replace(self, lambda: own.load_from_file_system(self, *args, **kwargs))


def _hooked_restore_saveable(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _replace(self.op, lambda: own.restore_saveable(self, *args, **kwargs))
