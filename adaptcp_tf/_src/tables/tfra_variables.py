# SPDX-License-Identifier: Apache-2.0
"""Finding TFRA's variables: below a model, in a graph, behind a table; and the slots of each."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.tables.tfra_own import de

# Held while what is known of variables and tables changes.
lock = threading.RLock()
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


def is_tfra_variable(variable: tf.Variable) -> bool:
    """Whether a tf.Variable is TFRA's view of rows, which live in tables, and not a dense one."""
    return isinstance(variable, (de.TrainableWrapper, de.DEResourceVariable))


def layer_name(variable_name: str) -> str:
    """The name of the TFRA layer that made a variable of this name; other names stay as they are."""
    return variable_name.removesuffix("-parameter")


def as_variable(variable: Any) -> de.Variable:
    """The variable behind what a user gave.

    Raises:
        InvalidOptionError: it is none of TFRA's.
    """
    if isinstance(variable, de.Variable):
        return variable
    if isinstance(variable, de.TrainableWrapper):
        return variable.params
    raise errors.InvalidOptionError(
        f"Invalid value in variables. Received: {variable!r} of type {type(variable).__name__}. "
        "Expected: variables of tfra.dynamic_embedding (from get_variable, or a layer's params)."
    )


def register(variable: de.Variable) -> None:
    """Remembers a variable and its tables."""
    with lock:
        _variables[id(variable)] = variable
        for table in variable.tables:
            _owners[id(table)] = variable


def owner_of(table: Any) -> de.Variable | None:
    """The variable whose table this is, if it was seen."""
    return _owners.get(id(table))


def is_always_tracked(variable: de.Variable) -> bool:
    """Whether a variable was made with a TrackedTableCreator."""
    return all(getattr(table, "_adaptcp_always", False) for table in variable.tables)


def variables_in(graph: tf.Graph) -> list[de.Variable]:
    """The variables whose tables are in a graph."""
    return [variable for variable in list(_variables.values()) if _graph_of(variable) is graph]


def variables_below(root: Any) -> Iterator[de.Variable]:
    """Yields the TFRA variables that a trackable holds, however deep; some more than once."""
    for node in tf.train.TrackableView(root).descendants():
        if isinstance(node, de.Variable):
            yield node
        elif isinstance(node, de.TrainableWrapper):
            yield node.params


def parameter_of(variable: de.Variable) -> de.Variable:
    """The variable whose slot or restrict-policy state this is, or itself."""
    known = getattr(variable, "_adaptcp_parameter", None)
    if known is not None and known() is not None:
        return known()
    register(variable)
    for parameter in list(_variables.values()):
        members = members_of(parameter)
        next(members)
        if any(member is variable for member in members):
            return parameter
    return variable


def members_of(parameter: de.Variable) -> Iterator[de.Variable]:
    """Yields a variable, the state of its restrict policy and its slots."""
    yield parameter
    if parameter.restrict_policy is not None and parameter.restrict_policy.status is not None:
        yield parameter.restrict_policy.status
    yield from _slots_of(parameter)


def _slots_of(parameter: de.Variable) -> Iterator[de.Variable]:
    for view in list(parameter._trainable_store.values()):
        slots = view._optimizer_vars
        yield from getattr(slots, "value", slots)


def _graph_of(variable: de.Variable) -> tf.Graph | None:
    handle = variable.tables[0].resource_handle
    return handle.graph if tf.is_symbolic_tensor(handle) else None
