# SPDX-License-Identifier: Apache-2.0
"""The tracked tables of a TF1 graph, for eager code to work on while a session trains them."""

from __future__ import annotations

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.tables.group import AttachedTable, TableGroup
from adaptcp_tf._src.tables.tfra import (
    clear_tables,
    saveables_of,
    tracked_groups_of,
    untracked_variables_of,
)

# Where eager code sees the trackers, whatever the session calls its devices.
_DEVICE = "/CPU:0"


class GraphTables:
    """All tracked tables of a graph that is not finalized yet.

    Trackers live where a session keeps its variables and tables, out of reach of eager ops. So the
    session gives handles of them to the process, and all that a manager does runs on those, beside
    the session.

    Example:
        >>> tables = GraphTables(tf.compat.v1.get_default_graph())
        >>> tables.leave_savers()
        >>> groups = tables.open(session)

    Args:
        graph: the default graph, with every lookup and update in it.

    Raises:
        InvalidOptionError: it has TFRA variables that are not tracked, or two of the same name.
    """

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        untracked = sorted({variable.name for variable in untracked_variables_of(graph)})
        if untracked:
            raise errors.InvalidOptionError(
                f"The graph has TFRA variables that are not tracked. Received: "
                f"{', '.join(untracked)}. Expected: all of them made with "
                "de.get_variable(..., kv_creator=acp.TrackedTableCreator())."
            )
        self._groups = tracked_groups_of(graph)
        self._tokens = {group.name: _share(group) for group in self._groups}
        self._clear = {group.name: tf.group(clear_tables(group)) for group in self._groups}

    @property
    def names(self) -> list[str]:
        """The variables' names, in order."""
        return [group.name for group in self._groups]

    def leave_savers(self) -> None:
        """Takes the tables out of TF1 Savers that are built from now on."""
        saveables = self._graph.get_collection_ref(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
        ours = {id(saveable) for group in self._groups for saveable in saveables_of(group)}
        saveables[:] = [saveable for saveable in saveables if id(saveable) not in ours]

    def open(self, session: tf.compat.v1.Session) -> list[TableGroup]:
        """Returns the groups as eager code sees them. They outlive the session.

        Args:
            session: one that runs in this process, with its tables made.

        Raises:
            InvalidOptionError: it runs in another process.
        """
        tokens = session.run(self._tokens)
        with eagerly():
            return [self._seen_from_outside(g, tokens[g.name], session) for g in self._groups]

    def _seen_from_outside(
        self, group: TableGroup, tokens: list[bytes], session: tf.compat.v1.Session
    ) -> TableGroup:
        clear = self._clear[group.name]
        seen = TableGroup(
            group.name,
            group.key_dtype,
            [_DEVICE] * group.num_shards,
            group.partition,
            clear=lambda unused: session.run(clear),
            handles=[_take(group.name, token) for token in tokens],
        )
        for mine, theirs in zip(seen.shards, group.shards):
            mine.tables = [
                AttachedTable(mine, table.table, mine.handle, table.name, table.index, None)
                for table in theirs.tables
            ]
        return seen


def _share(group: TableGroup) -> list[tf.Tensor]:
    tokens = []
    for shard in group.shards:
        attached = [table.attach_op for table in shard.tables]
        with tf.control_dependencies(attached), tf.device(shard.device):
            tokens.append(ops.adaptcp_share_table_group(shard.handle))
    return tokens


def _take(name: str, token: bytes) -> tf.Tensor:
    try:
        with tf.device(_DEVICE):
            return ops.adaptcp_take_table_group(token)
    except tf.errors.NotFoundError as error:
        raise errors.InvalidOptionError(
            f"The tables of TFRA variable {name!r} are in another process. Expected: a session "
            "that runs in this one, with master='' and no parameter servers."
        ) from error
