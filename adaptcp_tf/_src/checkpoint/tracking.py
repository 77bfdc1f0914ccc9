# SPDX-License-Identifier: Apache-2.0
"""What the trackers know before a cut is taken: every row, and how much is to be saved."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.tables import GroupShard, TableGroup
from adaptcp_tf._src.tables.tfra import adopt_strays

logger = logging.getLogger("adaptcp_tf")

# More than one was never seen between two checkpoints.
_MOST_STRAYS = 2

# Of a row besides its values, with its share of indices; and of a file besides its rows.
_KEY_BYTES = 40
_FILE_BYTES = 16 << 10
# An insert that is under way takes no longer.
_OTHERS_SECS = 0.1


def check_all_tracked(groups: Sequence[TableGroup]) -> list[dict[str, Any]]:
    """Returns the stats of each shard, once it is clear that its tracker knows every row.

    A training step behind the manager's back inserts many rows, and into every table of a group. A
    stray one in a single table is TFRA's own doing: it is tracked from now on, with a warning, or, in
    a TF1 session, left out.

    Raises:
        IncompatibleModelError: rows were inserted without the manager knowing.
    """
    measured = []
    for group in groups:
        for shard in group.shards:
            stats, surplus = _measure(shard)
            if max(surplus) > 0:
                everywhere = len(surplus) > 1 and min(surplus) > 0
                if everywhere or max(surplus) > _MOST_STRAYS:
                    raise errors.IncompatibleModelError(
                        f"{max(surplus)} rows of TFRA variable {group.name!r} were inserted without "
                        "the manager knowing. Make the manager before the training step is traced "
                        "or called for the first time."
                    )
                stats = _accept(shard, surplus)
            measured.append(stats)
    return measured


def _accept(shard: GroupShard, surplus: Sequence[int]) -> dict[str, Any]:
    """Has stray rows tracked, or noted if that cannot be; returns the stats from then on."""
    keys = adopt_strays(shard, surplus)
    tables = ", ".join(repr(t.name) for t, extra in zip(shard.tables, surplus) if extra)
    known = f" under {', '.join(map(str, keys))}" if 0 < len(keys) <= _MOST_STRAYS else ""
    logger.warning(
        "TFRA variable %r has %d rows in %s%s that no update brought. TFRA may insert such a row while "
        "a table grows. They are %s.",
        shard.group.name,
        max(surplus),
        tables,
        known,
        "saved as others are" if len(keys) else "not saved",
    )
    if not len(keys):
        shard.strays = [old + new for old, new in zip(shard.strays, surplus)]
        return shard.stats()
    return _measure(shard)[0]


def most_bytes(
    groups: Sequence[TableGroup],
    stats: Sequence[dict[str, Any]],
    variables: Mapping[str, tf.TensorSpec],
    *,
    base: bool,
) -> int:
    """Returns how large the files of a checkpoint can be, from what the trackers know.

    Keys that are strings count as if they were short, and removed ones not at all.

    Args:
        groups: the table groups.
        stats: of each shard, as `check_all_tracked` returns them.
        variables: what the dense variables are.
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


def _measure(shard: GroupShard) -> tuple[dict[str, Any], list[int]]:
    """Returns the shard's stats, and how many more rows each table holds than its tracker knows."""
    stats = shard.stats()
    table_rows = stats["table_rows"]
    if max(table_rows) > stats["rows"] + max(shard.strays, default=0):
        # Two threads may insert the same keys into two tables: one marks them, the other does not
        # wait for it. The first is done soon; what it marks counts, what comes later does not.
        time.sleep(_OTHERS_SECS)
        stats = shard.stats()
    surplus = [max(0, rows - stats["rows"]) for rows in table_rows]
    # Tables that were cleared have none any more, and new ones had none yet.
    known = [*shard.strays, *[0] * len(surplus)]
    shard.strays = [min(old, now) for old, now in zip(known, surplus)]
    return stats, [now - old for old, now in zip(shard.strays, surplus)]
