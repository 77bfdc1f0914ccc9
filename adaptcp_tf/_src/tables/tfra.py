# SPDX-License-Identifier: Apache-2.0
"""The only module that knows TFRA: which variables belong together, and who updates them."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.saved_model import save_context

from adaptcp_tf import errors
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.tables.group import PARAMETER, AttachedTable, GroupShard, TableGroup

with contextlib.redirect_stdout(sys.stderr):
    # TFRA 0.8.1 prints a remark when it is imported; standard output belongs to the program.
    from tensorflow_recommenders_addons import dynamic_embedding as de

_Table = de.CuckooHashTable

# What TFRA does by itself; the hooks below call it.
_lookup = _Table.lookup
_insert = _Table.insert
_remove = _Table.remove
_accum = _Table.accum
_clear = _Table.clear
_export = _Table.export
_load_from_file_system = _Table.load_from_file_system
_restore_saveable = _Table._Saveable.restore
_init_variable = de.Variable.__init__

_lock = threading.RLock()
# What managers save, one entry each: tables found there when an update is built become tracked.
_watched: list[tuple[Any, Any]] = []
# id -> variable, for every TFRA variable seen; and id of a table -> its variable.
_variables: weakref.WeakValueDictionary[int, de.Variable] = weakref.WeakValueDictionary()
_owners: weakref.WeakValueDictionary[int, de.Variable] = weakref.WeakValueDictionary()


class TrackedTableCreator(de.CuckooHashTableCreator):
    """Makes TFRA hash tables that are tracked from their first update on.

    Needed only where updates are built before a manager exists, as in TF1 graphs. Slot variables are
    made with the creator of their parameter variable, so one creator tracks the whole group.

    Example:
        >>> v = de.get_variable("emb", dim=16, kv_creator=acp.TrackedTableCreator())
    """

    def create(self, *args: Any, **kwargs: Any) -> Any:
        """Creates a table; same arguments as `de.CuckooHashTableCreator.create`."""
        table = super().create(*args, **kwargs)
        table._adaptcp_always = True
        return table


def watch(model: Any, optimizer: Any) -> tuple[Any, Any]:
    """From now until `unwatch`, tables that the model makes are tracked from their first update on.

    Returns:
        What to give to `unwatch`.
    """
    watched = (model, optimizer)
    with _lock:
        _watched.append(watched)
    return watched


def unwatch(watched: tuple[Any, Any]) -> None:
    """Ends a `watch`. Tables that are tracked stay so: their ops may be part of graphs."""
    with _lock:
        _watched[:] = [entry for entry in _watched if entry is not watched]


def is_tfra_variable(variable: tf.Variable) -> bool:
    """Whether a tf.Variable is TFRA's view of rows, which live in tables, and not a dense one."""
    return isinstance(variable, (de.TrainableWrapper, de.DEResourceVariable))


def layer_name(variable_name: str) -> str:
    """The name of the TFRA layer that made a variable of this name; other names stay as they are."""
    return variable_name.removesuffix("-parameter")


def discover_groups(
    model: tf.Module | None, optimizer: Any, variables: Iterable[Any]
) -> list[TableGroup]:
    """Finds the table groups that a model, an optimizer or a list of variables uses.

    Tracks them, if that is new, and attaches slot tables made since the last call.

    Args:
        model: a Keras model or any trackable; its TFRA variables are found however deep.
        optimizer: the optimizer, whose slots are found through the variables they belong to.
        variables: TFRA variables, or embeddings' trainable views of them.

    Returns:
        The groups, ordered by name.

    Raises:
        InvalidOptionError: something in `variables` is not a TFRA variable, two variables have the
            same name, or a table cannot be checkpointed.
    """
    found: dict[int, de.Variable] = {}
    for variable in variables:
        _collect(_as_variable(variable), found)
    for root in (model, optimizer):
        if root is not None:
            for variable in variables_below(root):
                _collect(variable, found)
    return _groups_of(found.values())


def tracked_groups_of(graph: tf.Graph) -> list[TableGroup]:
    """Finds the groups of all variables in a graph that were made with a TrackedTableCreator.

    Attaches every slot that is in the graph by now.

    Returns:
        The groups, ordered by name; ops on them are part of the graph.

    Raises:
        InvalidOptionError: two variables have the same name, or a table cannot be checkpointed.
    """
    found: dict[int, de.Variable] = {}
    for variable in _variables_in(graph):
        if _is_always_tracked(variable):
            _collect(variable, found)
    return _groups_of(found.values())


def untracked_variables_of(graph: tf.Graph) -> list[de.Variable]:
    """Finds the variables in a graph that were made with another creator."""
    return [v for v in _variables_in(graph) if not _is_always_tracked(v)]


def _groups_of(parameters: Iterable[de.Variable]) -> list[TableGroup]:
    groups = [_group_of(parameter) for parameter in parameters]
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise errors.InvalidOptionError(
            f"Two TFRA variables have the same name. Received: {sorted(names)}. Expected: distinct "
            "names, since checkpoints know variables by name. Give each layer its own name."
        )
    return sorted(groups, key=lambda group: group.name)


def saveables_of(group: TableGroup) -> list[Any]:
    """Returns what TFRA has TF1 Savers save of a group: each table, or the variable as a whole."""
    tables = [attached.table for shard in group.shards for attached in shard.tables]
    holders = [*tables, *(_owners.get(id(table)) for table in tables)]
    return [holder.saveable for holder in holders if hasattr(holder, "saveable")]


def new_table(key_dtype: tf.DType, value_dtype: tf.DType, dim: int) -> Any:
    """Makes an empty table on the CPU that belongs to no variable."""
    default = tf.zeros([dim], value_dtype)
    return _Table(key_dtype, value_dtype, default, "adaptcp", checkpoint=False, device="/CPU:0")


def export_keys(attached: AttachedTable) -> tf.Tensor:
    """Returns the keys [n] of a table; only while nobody updates it."""
    return _export(attached.table)[0]


def clear_tables(group: TableGroup) -> list[Any]:
    """Empties the group's tables behind the tracker's back; returns the ops that do in a graph."""
    return [_clear(attached.table) for shard in group.shards for attached in shard.tables]


def adopt_strays(shard: GroupShard, surplus: Sequence[int]) -> np.ndarray:
    """Tracks rows that only some tables of the shard hold, and its tracker does not know.

    TFRA makes them: while a table grows on a busy machine, it may insert a key made of other memory.
    Costs as much as the tables are large. If no table holds just the tracked rows, it is unclear
    which are new, and all count as updated.

    Args:
        shard: the shard; nobody may update its tables meanwhile.
        surplus: of each table, how many more rows it holds than the tracker knows.

    Returns:
        The keys [n] that count as updated; none if the tables are a TF1 session's, which only the
        session can read.
    """
    if tf.is_symbolic_tensor(shard.tables[0].table.resource_handle):
        return np.array([], np.int64)
    keys = [export_keys(attached).numpy() for attached in shard.tables]
    tracked = shard.stats()["rows"]
    strays = np.concatenate([k for k, extra in zip(keys, surplus) if extra])
    known = next((k for k, extra in zip(keys, surplus) if not extra and len(k) == tracked), ())
    strays = np.setdiff1d(strays, known)
    shard.adopt(tf.constant(strays, shard.group.key_dtype))
    return strays


def _variables_in(graph: tf.Graph) -> list[de.Variable]:
    return [variable for variable in list(_variables.values()) if _graph_of(variable) is graph]


def _graph_of(variable: de.Variable) -> tf.Graph | None:
    handle = variable.tables[0].resource_handle
    return handle.graph if tf.is_symbolic_tensor(handle) else None


def _is_always_tracked(variable: de.Variable) -> bool:
    return all(getattr(table, "_adaptcp_always", False) for table in variable.tables)


def _collect(variable: de.Variable, found: dict[int, de.Variable]) -> None:
    parameter = _parameter_of(variable)
    found.setdefault(id(parameter), parameter)


def _as_variable(variable: Any) -> de.Variable:
    if isinstance(variable, de.Variable):
        return variable
    if isinstance(variable, de.TrainableWrapper):
        return variable.params
    raise errors.InvalidOptionError(
        f"Invalid value in variables. Received: {variable!r} of type {type(variable).__name__}. "
        "Expected: variables of tfra.dynamic_embedding (from get_variable, or a layer's params)."
    )


def variables_below(root: Any) -> Iterator[de.Variable]:
    """Yields the TFRA variables that a trackable holds, however deep; some more than once."""
    for node in tf.train.TrackableView(root).descendants():
        if isinstance(node, de.Variable):
            yield node
        elif isinstance(node, de.TrainableWrapper):
            yield node.params


def _slots_of(parameter: de.Variable) -> Iterator[de.Variable]:
    for view in list(parameter._trainable_store.values()):
        slots = view._optimizer_vars
        yield from getattr(slots, "value", slots)


def _members_of(parameter: de.Variable) -> Iterator[de.Variable]:
    yield parameter
    if parameter.restrict_policy is not None and parameter.restrict_policy.status is not None:
        yield parameter.restrict_policy.status
    yield from _slots_of(parameter)


def _parameter_of(variable: de.Variable) -> de.Variable:
    """The variable whose slot or restrict-policy state this is, or itself."""
    known = getattr(variable, "_adaptcp_parameter", None)
    if known is not None and known() is not None:
        return known()
    _register(variable)
    for parameter in list(_variables.values()):
        members = _members_of(parameter)
        next(members)
        if any(member is variable for member in members):
            return parameter
    return variable


def _register(variable: de.Variable) -> None:
    with _lock:
        _variables[id(variable)] = variable
        for table in variable.tables:
            _owners[id(table)] = variable


def _group_of(parameter: de.Variable) -> TableGroup:
    with _lock:
        group = getattr(parameter, "_adaptcp_group", None)
        if group is None:
            _check_can_track(parameter)
            group = TableGroup(
                parameter.name,
                parameter.key_dtype,
                parameter.devices,
                parameter.partition_fn,
                clear=clear_tables,
            )
            parameter._adaptcp_group = group
        for member in _members_of(parameter):
            _attach(group, parameter, member)
        return group


def _check_can_track(parameter: de.Variable) -> None:
    for table in parameter.tables:
        if not isinstance(table, _Table) or table._device_type == "GPU":
            raise errors.InvalidOptionError(
                f"TFRA variable {parameter.name!r} cannot be checkpointed. Received: a "
                f"{type(table).__name__} on {table._device or 'the default device'}. Expected: "
                "CuckooHashTable on a CPU; pass devices=['/CPU:0'] and no other kv_creator."
            )


def _attach(group: TableGroup, parameter: de.Variable, member: de.Variable) -> None:
    _register(member)
    # Found by a search over all variables, which every save would repeat.
    member._adaptcp_parameter = weakref.ref(parameter)
    prefix = parameter.name + "/"
    name = PARAMETER if member is parameter else member.name
    if name.startswith(prefix):
        name = name[len(prefix) :]
    for shard, table in zip(group.shards, member.tables):
        if _attachment(table) is not None:
            continue
        try:
            attached = shard.attach(table, name)
        except tf.errors.InvalidArgumentError as error:
            raise errors.InvalidOptionError(
                f"TFRA variable {member.name!r} cannot be checkpointed: {error.message}"
            ) from error
        table._adaptcp_attached = attached
        if tf.executing_eagerly():
            shard.adopt(export_keys(attached))


def _attachment(table: Any) -> AttachedTable | None:
    attached = getattr(table, "_adaptcp_attached", None)
    # TFRA copies table objects when it exports a model; the copy is another table.
    return attached if attached is not None and attached.table is table else None


def _tracked(table: Any) -> AttachedTable | None:
    """The table's attachment, made now when somebody watches; None when it is not tracked."""
    if save_context.in_save_context():
        # A SavedModel is used without us.
        return None
    attached = _attachment(table)
    if attached is not None:
        return attached
    always = getattr(table, "_adaptcp_always", False)
    # A table copied from a tracked one belongs to no variable.
    owner = None if hasattr(table, "_adaptcp_attached") else _owners.get(id(table))
    if owner is None or not (always or _watched):
        return None
    parameter = _parameter_of(owner)
    if not always and not hasattr(parameter, "_adaptcp_group") and not _is_watched(parameter):
        return None
    # The ops that make trackers must run now, not become part of the function being traced.
    with tf.init_scope():
        _group_of(parameter)
    return _attachment(table)


def _is_watched(parameter: de.Variable) -> bool:
    roots = [root for watched in list(_watched) for root in watched if root is not None]
    return any(variable is parameter for root in roots for variable in variables_below(root))


def _after(*operations: Any) -> Any:
    return tf.control_dependencies([operation for operation in operations if operation is not None])


def _hooked_init_variable(self: de.Variable, *args: Any, **kwargs: Any) -> None:
    _init_variable(self, *args, **kwargs)
    _register(self)


def _hooked_lookup(self: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    # Under a gradient tape the rows that are looked up are about to be updated. Elsewhere, as in
    # exported models, no op of ours may appear.
    attached = _tracked(self) if record.could_possibly_record() else None
    if attached is not None and attached.name == PARAMETER:
        keys = tf.convert_to_tensor(keys, self._key_dtype)
        with _after(attached.attach_op), tf.device(attached.shard.device):
            ops.adaptcp_will_update(attached.shard.handle, keys)
    return _lookup(self, keys, *args, **kwargs)


def _hooked_insert(self: Any, keys: Any, values: Any, name: str | None = None) -> Any:
    attached = _tracked(self)
    if attached is None:
        return _insert(self, keys, values, name)
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
    attached = _tracked(self)
    if attached is None or keys.dtype != self._key_dtype:
        return _remove(self, keys, name)
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
    attached = _tracked(self)
    if attached is None:
        return _accum(self, keys, values_or_deltas, exists, name)
    keys = tf.convert_to_tensor(keys, self._key_dtype)
    with _after(attached.attach_op), tf.device(attached.shard.device):
        before = ops.adaptcp_before_update(attached.handle, keys)
    with _after(before):
        changed = _accum(self, keys, values_or_deltas, exists, name)
    with _after(changed), tf.device(attached.shard.device):
        return ops.adaptcp_after_update(attached.handle, keys)


def _replace(table: Any, change: Callable[[], Any]) -> Any:
    """Runs a change of a whole table between the tracker's brackets."""
    attached = _tracked(table)
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
    return _replace(self, lambda: _clear(self, name))


def _hooked_load_from_file_system(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _replace(self, lambda: _load_from_file_system(self, *args, **kwargs))


def _hooked_restore_saveable(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _replace(self.op, lambda: _restore_saveable(self, *args, **kwargs))


def _install_hooks() -> None:
    de.Variable.__init__ = _hooked_init_variable
    _Table.lookup = _hooked_lookup
    _Table.insert = _hooked_insert
    _Table.remove = _hooked_remove
    _Table.accum = _hooked_accum
    _Table.clear = _hooked_clear
    _Table.load_from_file_system = _hooked_load_from_file_system
    _Table._Saveable.restore = _hooked_restore_saveable


_install_hooks()
