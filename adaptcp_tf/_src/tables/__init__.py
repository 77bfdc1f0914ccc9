# SPDX-License-Identifier: Apache-2.0
"""Table groups: the tables of one TFRA variable and its slots, tracked by one tracker a shard."""

from adaptcp_tf._src.tables.group import GroupShard, TableGroup, begin_cut
from adaptcp_tf._src.tables.prefetch_targets import PrefetchTargets
from adaptcp_tf._src.tables.tfra import discover_groups, unwatch, watch
from adaptcp_tf._src.tables.tfra_graph import GraphTables
from adaptcp_tf._src.tables.tfra_hooks import install
from adaptcp_tf._src.tables.tfra_variables import TrackedTableCreator, is_tfra_variable

__all__ = [
    "GraphTables",
    "GroupShard",
    "PrefetchTargets",
    "TableGroup",
    "TrackedTableCreator",
    "begin_cut",
    "discover_groups",
    "is_tfra_variable",
    "unwatch",
    "watch",
]

install()
