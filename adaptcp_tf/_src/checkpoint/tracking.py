# SPDX-License-Identifier: Apache-2.0
"""Whether the trackers know every row before a cut is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.tfra import measure


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
