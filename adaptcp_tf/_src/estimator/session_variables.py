# SPDX-License-Identifier: Apache-2.0
"""The dense variables of a TF1 graph, read and set through its session."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from adaptcp_tf._src.checkpoint.dense import DenseSnapshot
from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.tables import is_tfra_variable


class SessionVariables:
    """The global variables of the default graph, by the names of their ops.

    Needs no op that is not in the graph already, so that the graph may be finalized.
    """

    def __init__(self) -> None:
        self._variables = {
            variable.op.name: variable
            for variable in tf.compat.v1.global_variables()
            if not is_tfra_variable(variable)
        }
        self._session: tf.compat.v1.Session | None = None

    def use(self, session: tf.compat.v1.Session) -> None:
        """Says in which session the variables are."""
        self._session = session

    @property
    def specs(self) -> Mapping[str, tf.TensorSpec]:
        """Key -> what the variable is."""
        return {
            key: tf.TensorSpec(variable.shape, variable.dtype.base_dtype)
            for key, variable in self._variables.items()
        }

    def snapshot(self) -> DenseSnapshot:
        """Copies the values of the variables out of the session."""
        values = self._session.run(self._variables)
        with eagerly(), tf.device("/CPU:0"):
            return DenseSnapshot(
                {
                    key: tf.constant(value, dtype=self._variables[key].dtype.base_dtype)
                    for key, value in values.items()
                }
            )

    def assign(self, values: Mapping[str, tf.Tensor]) -> None:
        """Sets variables, by key: runs their initializers with these initial values."""
        left = dict(values)
        while left:
            # Variables that share their initial value cannot be fed different ones at once.
            feeds = {}
            for key in left:
                initial_value = self._variables[key].initializer.inputs[1]
                feeds.setdefault(initial_value.ref(), key)
            keys = list(feeds.values())
            self._session.run(
                [self._variables[key].initializer for key in keys],
                {place.deref(): left[key].numpy() for place, key in feeds.items()},
            )
            for key in keys:
                del left[key]
