# SPDX-License-Identifier: Apache-2.0
"""Table groups of TFRA's variables: which tables belong together, and that they are tracked."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.saved_model import save_context

from adaptcp_tf import errors
from adaptcp_tf._src.tables import tfra_own as own
from adaptcp_tf._src.tables.group import PARAMETER, AttachedTable, GroupShard, TableGroup
from adaptcp_tf._src.tables.tfra_own import de
from adaptcp_tf._src.tables.tfra_variables import (
    as_variable,
    is_always_tracked,
    lock,
    members_of,
    owner_of,
    parameter_of,
    register,
    variables_below,
    variables_in,
)

# What managers save, one entry each: tables found there when an update is built become tracked.
_watched: list[tuple[Any, Any]] = []


def watch(model: Any, optimizer: Any) -> tuple[Any, Any]:
    """From now until `unwatch`, tables that the model makes are tracked from their first update on.

    Returns:
        What to give to `unwatch`.
    """
    watched = (model, optimizer)
    with lock:
        _watched.append(watched)
    return watched


def unwatch(watched: tuple[Any, Any]) -> None:
    """Ends a `watch`. Tables that are tracked stay so: their ops may be part of graphs."""
    with lock:
        _watched[:] = [entry for entry in _watched if entry is not watched]


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
        _collect(as_variable(variable), found)
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
    for variable in variables_in(graph):
        if is_always_tracked(variable):
            _collect(variable, found)
    return _groups_of(found.values())


def untracked_variables_of(graph: tf.Graph) -> list[de.Variable]:
    """Finds the variables in a graph that were made with another creator."""
    return [v for v in variables_in(graph) if not is_always_tracked(v)]


def saveables_of(group: TableGroup) -> list[Any]:
    """Returns what TFRA has TF1 Savers save of a group: each table, or the variable as a whole."""
    tables = [attached.table for shard in group.shards for attached in shard.tables]
    holders = [*tables, *(owner_of(table) for table in tables)]
    return [holder.saveable for holder in holders if hasattr(holder, "saveable")]


def new_table(key_dtype: tf.DType, value_dtype: tf.DType, dim: int) -> Any:
    """Makes an empty table on the CPU that belongs to no variable."""
    default = tf.zeros([dim], value_dtype)
    return own.Table(key_dtype, value_dtype, default, "adaptcp", checkpoint=False, device="/CPU:0")


def export_keys(attached: AttachedTable) -> tf.Tensor:
    """Returns the keys [n] of a table; only while nobody updates it."""
    return attached.table.export()[0]


def clear_tables(group: TableGroup) -> list[Any]:
    """Empties the group's tables behind the tracker's back; returns the ops that do in a graph."""
    return [own.clear(attached.table) for shard in group.shards for attached in shard.tables]


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


def tracked(table: Any) -> AttachedTable | None:
    """The table's attachment, made now when somebody watches; None when it is not tracked."""
    if save_context.in_save_context():
        # A SavedModel is used without us.
        return None
    attached = _attachment(table)
    if attached is not None:
        return attached
    always = getattr(table, "_adaptcp_always", False)
    # A table copied from a tracked one belongs to no variable.
    owner = None if hasattr(table, "_adaptcp_attached") else owner_of(table)
    if owner is None or not (always or _watched):
        return None
    parameter = parameter_of(owner)
    if not always and not hasattr(parameter, "_adaptcp_group") and not _is_watched(parameter):
        return None
    # The ops that make trackers must run now, not become part of the function being traced.
    with tf.init_scope():
        _group_of(parameter)
    return _attachment(table)


def _groups_of(parameters: Iterable[de.Variable]) -> list[TableGroup]:
    groups = [_group_of(parameter) for parameter in parameters]
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise errors.InvalidOptionError(
            f"Two TFRA variables have the same name. Received: {sorted(names)}. Expected: distinct "
            "names, since checkpoints know variables by name. Give each layer its own name."
        )
    return sorted(groups, key=lambda group: group.name)


def _collect(variable: de.Variable, found: dict[int, de.Variable]) -> None:
    parameter = parameter_of(variable)
    found.setdefault(id(parameter), parameter)


def _group_of(parameter: de.Variable) -> TableGroup:
    with lock:
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
        for member in members_of(parameter):
            _attach(group, parameter, member)
        return group


def _check_can_track(parameter: de.Variable) -> None:
    for table in parameter.tables:
        if not isinstance(table, own.Table) or table._device_type == "GPU":
            raise errors.InvalidOptionError(
                f"TFRA variable {parameter.name!r} cannot be checkpointed. Received: a "
                f"{type(table).__name__} on {table._device or 'the default device'}. Expected: "
                "CuckooHashTable on a CPU; pass devices=['/CPU:0'] and no other kv_creator."
            )


def _attach(group: TableGroup, parameter: de.Variable, member: de.Variable) -> None:
    register(member)
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


def _is_watched(parameter: de.Variable) -> bool:
    roots = [root for watched in list(_watched) for root in watched if root is not None]
    return any(variable is parameter for root in roots for variable in variables_below(root))
