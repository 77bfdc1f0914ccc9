# SPDX-License-Identifier: Apache-2.0
"""What of TFRA is in a model that only serves: its tables, and lookups that leave no trace."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.training.saver import BaseSaverBuilder
from tensorflow_recommenders_addons import dynamic_embedding as de
from tensorflow_recommenders_addons.dynamic_embedding.python.ops import cuckoo_hashtable_ops

from adaptcp_tf import errors
from adaptcp_tf._src.tables.tfra_variables import variables_below

# TFRA's raw ops, as its tables call them.
cuckoo_ops = cuckoo_hashtable_ops.cuckoo_ops

# How TFRA's variables call what holds their tables; their names follow.
TABLES_OF = "tables_of_"

_TableSaveable = de.CuckooHashTable._Saveable


@contextlib.contextmanager
def inference_mode() -> Iterator[None]:
    """Inside, functions that are traced look rows up without noting them for an optimizer."""
    before = de.ModelMode.CURRENT_SETTING
    de.enable_inference_mode()
    try:
        yield
    finally:
        de.ModelMode.CURRENT_SETTING = before


@dataclasses.dataclass(frozen=True)
class ServedTable:
    """A table that a model looks rows up in.

    Attributes:
        variable: the TFRA variable that it is a shard of.
        shard: which.
        table: the table.
    """

    variable: Any
    shard: int
    table: Any

    @property
    def name(self) -> str:
        """What TFRA calls the table; the variable's name and the shard are in it."""
        return self.table._name

    def without_rows(self) -> Any:
        """Returns a trackable that stands for the table in an exported model, and holds no rows."""
        empty = copy.copy(self.table)
        empty._saveable_fn = _WithoutRows
        return empty

    def rows(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Copies its rows: keys [n], values [n, dim]."""
        return self.table.export()


class _WithoutRows(_TableSaveable):
    """Saves a table as if it were empty; restores it as TFRA does."""

    def __init__(self, table: Any, name: str, full_name: str = ""):
        del full_name
        values = tf.zeros([0, int(table._default_value.shape[0])], table._value_dtype)
        empty = {"keys": tf.zeros([0], table._key_dtype), "values": values}
        specs = [
            # Its import op refuses shapes that are known.
            # The name may be a tensor.
            BaseSaverBuilder.SaveSpec(
                tf.compat.v1.placeholder_with_default(tensor, None), "", name + f"-{kind}"
            )
            for kind, tensor in empty.items()
        ]
        BaseSaverBuilder.SaveableObject.__init__(self, table, specs, name)
        self._restore_name = table._name


def served_tables(model: Any) -> list[ServedTable]:
    """Finds the tables of the TFRA variables of a model; those of slots are not among them.

    Raises:
        InvalidOptionError: a table is on a GPU or of another kind than `CuckooHashTable`.
    """
    variables = {id(variable): variable for variable in variables_below(model)}
    found = [
        ServedTable(variable, shard, table)
        for variable in variables.values()
        for shard, table in enumerate(variable.tables)
    ]
    for one in found:
        if not isinstance(one.table, de.CuckooHashTable) or one.table._device_type == "GPU":
            raise errors.InvalidOptionError(
                f"TFRA variable {one.variable.name!r} cannot be exported. Received: a "
                f"{type(one.table).__name__} on {one.table._device or 'the default device'}. "
                "Expected: CuckooHashTable on a CPU."
            )
    return found


@dataclasses.dataclass(frozen=True)
class ServingVariable:
    """A TFRA variable that serves, in a model or in a SavedModel that was loaded.

    Attributes:
        name: its name.
        layout: dtype of keys and of values, and dim; None when a loaded SavedModel does not tell.
        upsert: inserts values [n, dim] for keys [n].
        remove: removes keys [n].
    """

    name: str
    layout: tuple[str, str, int] | None
    upsert: Callable[[tf.Tensor, tf.Tensor], Any]
    remove: Callable[[tf.Tensor], Any]


def serving_variables(target: Any) -> dict[str, ServingVariable]:
    """Finds the TFRA variables that serve, by name.

    Args:
        target: a model, a list of TFRA variables, or what `tf.saved_model.load` returned.

    Raises:
        InvalidOptionError: a variable of a loaded SavedModel has several tables.
    """
    if isinstance(target, Iterable):
        variables = list(target)
    else:
        variables = list({id(v): v for v in variables_below(target)}.values())
    if not variables:
        return _loaded_variables(target)
    return {
        variable.name: ServingVariable(
            variable.name,
            (variable.key_dtype.name, variable.value_dtype.name, variable.dim),
            variable.upsert,
            variable.remove,
        )
        for variable in variables
    }


def _loaded_variables(root: Any) -> dict[str, ServingVariable]:
    found = {}
    for node in tf.train.TrackableView(root).descendants():
        for name, holder in tf.train.TrackableView.children(node).items():
            if name.startswith(TABLES_OF):
                variable = name[len(TABLES_OF) :]
                found[variable] = _loaded_variable(variable, holder)
    return found


def _loaded_variable(name: str, holder: Any) -> ServingVariable:
    children = tf.train.TrackableView.children(holder)
    tables = [table for shard, table in children.items() if shard.isdigit()]
    if len(tables) != 1:
        raise errors.InvalidOptionError(
            f"TFRA variable {name!r} of the loaded SavedModel cannot be changed, since its partition "
            f"function is not known. Received: {len(tables)} tables. Expected: one. Export it with "
            "devices=['/CPU:0']."
        )
    handle = tables[0].resource_handle
    return ServingVariable(
        name,
        None,
        lambda keys, values: cuckoo_ops.tfra_cuckoo_hash_table_insert(handle, keys, values),
        lambda keys: cuckoo_ops.tfra_cuckoo_hash_table_remove(handle, keys),
    )
