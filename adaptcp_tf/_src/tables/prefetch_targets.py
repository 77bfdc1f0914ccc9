# SPDX-License-Identifier: Apache-2.0
"""What datasets know of table groups that may not exist yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.tables.group import TableGroup
from adaptcp_tf._src.tables.tfra_variables import layer_name

_KEY_DTYPES = (tf.int32, tf.int64, tf.string)

# The name that a dataset gave, None for the only variable, and the dtype of its ids.
_Wish = tuple[Optional[str], tf.DType]


class PrefetchTargets:
    """Hands out handles by the names of variables, and binds them once the variables are there."""

    def __init__(self):
        self._handles: dict[_Wish, tf.Tensor] = {}
        self._bound: dict[_Wish, TableGroup] = {}
        self._groups: list[TableGroup] = []
        self._complete = False

    def handle(self, name: str | None, key_dtype: tf.DType) -> tf.Tensor:
        """Returns a resource that stands for a table group.

        Args:
            name: of its variable, or of the layer that holds it; None for the model's only one.
            key_dtype: of the ids it will be given.

        Raises:
            InvalidOptionError: it is known that there is no such group with such keys.
        """
        if key_dtype not in _KEY_DTYPES:
            raise errors.InvalidOptionError(
                f"Invalid ids for {_called(name)}. Received: dtype {key_dtype.name}. Expected: "
                "int64, int32 or string, as the variable's keys."
            )
        wish = (name, key_dtype)
        if wish not in self._handles:
            # Now, not whenever the dataset's function that asks for it runs.
            with tf.init_scope(), tf.device("/CPU:0"):
                self._handles[wish] = ops.adaptcp_prefetch_target()
                self._bind(wish)
        return self._handles[wish]

    def bind(self, groups: Sequence[TableGroup], *, complete: bool) -> None:
        """Connects the handles with groups.

        Args:
            groups: the model's groups so far.
            complete: whether it will have no others.

        Raises:
            InvalidOptionError: a handle was asked for of which there is no group with such keys; told
                once.
        """
        self._groups = list(groups)
        self._complete = complete
        for wish in list(self._handles):
            self._bind(wish)

    def _bind(self, wish: _Wish) -> None:
        try:
            group = self._find(*wish)
        except errors.InvalidOptionError:
            del self._handles[wish]
            self._bound.pop(wish, None)
            raise
        if group is None or self._bound.get(wish) is group:
            return
        with tf.device("/CPU:0"):
            shards = [shard.handle for shard in group.shards]
            ops.adaptcp_bind_prefetch_target(self._handles[wish], shards)
        self._bound[wish] = group

    def _find(self, name: str | None, key_dtype: tf.DType) -> TableGroup | None:
        """The group that is meant; None when it may come later."""
        if name is None:
            found = self._groups
        else:
            found = [group for group in self._groups if group.name == name] or [
                group for group in self._groups if layer_name(group.name) == name
            ]
        if len(found) > 1 or (not found and self._complete):
            raise errors.InvalidOptionError(
                f"acp.data.prefetch was given ids for {_called(name)}, but the model has "
                f"{len(found)} such variables. Received: {sorted(g.name for g in self._groups)}. "
                "Expected: a dict from the names of the model's TFRA variables to ids."
            )
        if not found or (name is None and not self._complete):
            return None
        if found[0].key_dtype != key_dtype:
            raise errors.InvalidOptionError(
                f"acp.data.prefetch was given ids of another dtype than the keys of TFRA variable "
                f"{found[0].name!r}. Received: {key_dtype.name}. Expected: "
                f"{found[0].key_dtype.name}; cast them in the function `ids`."
            )
        return found[0]


def _called(name: str | None) -> str:
    return "the only TFRA variable" if name is None else f"TFRA variable {name!r}"
