# SPDX-License-Identifier: Apache-2.0
"""What the trackers know before a cut is taken: every row, and how much is to be saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.tfra import measure

# Of a row besides its values, with its share of indices; and of a file besides its rows.
_KEY_BYTES = 40
_FILE_BYTES = 16 << 10


def check_all_tracked(groups: Sequence[TableGroup]) -> list[dict[str, Any]]:
    """Returns the stats of each shard, once it is clear that its tracker knows every row.

    Raises:
        IncompatibleModelError: rows were inserted without the manager knowing.
    """
    measured = []
    for group in groups:
        of_group = [measure(shard) for shard in group.shards]
        measured += [stats for stats, _ in of_group]
        missing = max(rows for _, rows in of_group)
        if missing > 0:
            raise errors.IncompatibleModelError(
                f"{missing} rows of TFRA variable {group.name!r} were inserted without the "
                "manager knowing. Make the manager before the training step is traced or "
                "called for the first time."
            )
    return measured


def most_bytes(
    groups: Sequence[TableGroup],
    stats: Sequence[dict[str, Any]],
    variables: Mapping[str, tf.Variable],
    *,
    base: bool,
) -> int:
    """Returns how large the files of a checkpoint can be, from what the trackers know.

    Keys that are strings count as if they were short, and removed ones not at all.

    Args:
        groups: the table groups.
        stats: of each shard, as `check_all_tracked` returns them.
        variables: the dense variables.
        base: whether every row is saved.
    """
    total = sum(v.dtype.size * (v.shape.num_elements() or 0) for v in variables.values())
    total += _FILE_BYTES
    shards = [shard for group in groups for shard in group.shards]
    for shard, measured in zip(shards, stats):
        row_bytes = _KEY_BYTES + sum(
            t.table._value_dtype.size * int(t.table._default_value.shape[0]) for t in shard.tables
        )
        total += _FILE_BYTES + row_bytes * measured["rows" if base else "rows_to_save"]
    return total
