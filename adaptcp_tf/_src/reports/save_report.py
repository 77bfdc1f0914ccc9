# SPDX-License-Identifier: Apache-2.0
"""What became of one checkpoint."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """What became of one checkpoint; rows count once a shard and table group.

    Attributes:
        step: the step.
        kind: "base" or "delta".
        wall_time: when the cut was taken, in seconds since the epoch.
        hot_threshold: updates per interval from which a row is hot; above 1 none is.
        rows_hot: rows written to differentials, or hot rows of a base.
        rows_cold: rows written to increments, or the other rows of a base.
        tombstones: removed keys written.
        rows_saved_on_update: rows that training itself saved, just before it changed them.
        rows_drained: rows saved in the background.
        rows_prefetched: rows that `acp.data.prefetch` saved while the input was prepared.
        bytes: size of the new files.
        bytes_base, bytes_increment, bytes_differential, bytes_dense: the same by class.
        chain_length: checkpoints since the base of its chain.
        restore_bytes: size of all files that a restore reads.
        rho: read cost over write cost of a row copy that the threshold was solved from; None if it
            was not solved.
        stall_ms: for how long training was held up, in milliseconds.
        room_wait_ms: how much of that it waited for room in the buffer, in milliseconds.
        seconds_to_durable: from the cut until it survives a power loss, in the buffer if there is
            one.
        seconds_to_uploaded: from the cut until it was durable in the directory; None while it is
            not, and for checkpoints that were left out because a newer one was uploaded.
    """

    step: int
    kind: str
    wall_time: float
    hot_threshold: float
    rows_hot: int
    rows_cold: int
    tombstones: int
    rows_saved_on_update: int
    rows_drained: int
    rows_prefetched: int
    bytes: int
    bytes_base: int
    bytes_increment: int
    bytes_differential: int
    bytes_dense: int
    chain_length: int
    restore_bytes: int
    rho: float | None
    stall_ms: float
    room_wait_ms: float
    seconds_to_durable: float
    seconds_to_uploaded: float | None

    @property
    def upload_lag_secs(self) -> float | None:
        """How much later it was durable in the directory than in the buffer; None while it is not."""
        if self.seconds_to_uploaded is None:
            return None
        return max(0.0, self.seconds_to_uploaded - self.seconds_to_durable)
