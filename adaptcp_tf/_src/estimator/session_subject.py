# SPDX-License-Identifier: Apache-2.0
"""The graph of a TF1 session as what a manager checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adaptcp_tf._src.checkpoint.dense import DenseVariables
from adaptcp_tf._src.estimator.session_variables import SessionVariables
from adaptcp_tf._src.estimator.tf_checkpoints import TensorFlowCheckpoints
from adaptcp_tf._src.tables import GraphTables, TableGroup


class SessionSubject:
    """Tracked tables and dense variables of the default graph; there is a session from `open` on.

    Args:
        tables: the tables.
        checkpoints: TensorFlow's own checkpoints, which shall be of the same steps; or None.
    """

    def __init__(self, tables: GraphTables, checkpoints: TensorFlowCheckpoints | None):
        self._tables = tables
        self._variables = SessionVariables()
        self._checkpoints = checkpoints
        self._groups: list[TableGroup] = []

    def open(self, session: tf.compat.v1.Session) -> None:
        """Takes the tables and variables of a session; called again, those of the next one.

        Raises:
            InvalidOptionError: the session runs in another process.
        """
        self.close()
        self._groups = self._tables.open(session)
        self._variables.use(session)

    def close(self) -> None:
        """Lets go of the session's tables, which live as long as somebody holds them."""
        for group in self._groups:
            group.release()
        self._groups = []

    def watch(self) -> Callable[[], None]:
        """Tables of graphs are tracked by their creator."""
        return lambda: None

    def is_built(self) -> bool:
        """Graphs have all their variables."""
        return True

    def when_built(self, action: Callable[[], Any]) -> None:
        """Calls `action`."""
        action()

    def has_all_variables(self) -> bool:
        """Whether there is a session."""
        return bool(self._groups)

    def make_slots(self) -> None:
        """Slots are in the graph."""

    def groups(self) -> list[TableGroup]:
        """The table groups of the session; none before there is one."""
        return self._groups

    def variables(self) -> DenseVariables:
        """The global variables."""
        return self._variables

    def save_ended(self, all_steps: Callable[[], list[int]]) -> None:
        """Has TensorFlow's checkpoints follow."""
        if self._checkpoints is not None:
            self._checkpoints.keep(all_steps())
