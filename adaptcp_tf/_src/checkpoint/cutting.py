# SPDX-License-Identifier: Apache-2.0
"""Taking a cut: what is saved and how, room for it, and the instant that a checkpoint describes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.dense import DenseSnapshot, DenseVariables
from adaptcp_tf._src.checkpoint.encodings import decide
from adaptcp_tf._src.checkpoint.options import CheckpointOptions
from adaptcp_tf._src.checkpoint.second_tier import Reservation, SecondTier
from adaptcp_tf._src.checkpoint.tracking import check_all_tracked, most_bytes
from adaptcp_tf._src.manifest import Manifest, Position
from adaptcp_tf._src.policy import Decision, Policy
from adaptcp_tf._src.tables import TableGroup, begin_cut


@dataclasses.dataclass
class Cut:
    """A cut that has begun: all that the background needs to make a checkpoint of it.

    Attributes:
        step: the step it is saved under.
        interval: the interval that it closed.
        base: whether it holds every live row.
        groups: the table groups that began.
        decision: what the policy wanted.
        dense: the dense variables' values.
        position: where in the input it was taken, or None.
        counters: JSON values to keep.
        rows_live: rows of all tables when it began.
        wall_time: when it began, in seconds since the epoch.
        stall_secs: for how long `save` held up training.
        reservation: room in the buffer, if there is one.
    """

    step: int
    interval: int
    base: bool
    groups: list[TableGroup]
    decision: Decision
    dense: DenseSnapshot
    position: Position | None
    counters: dict[str, Any]
    rows_live: int
    wall_time: float
    stall_secs: float
    reservation: Reservation


class CutTaker:
    """Begins cuts on the thread that trains, between steps.

    Args:
        policy: says when a checkpoint is a base, and which rows are hot.
        second: the way to the second tier, if there is one.
        options: how to save.
    """

    def __init__(self, policy: Policy, second: SecondTier | None, options: CheckpointOptions):
        self._policy = policy
        self._second = second
        self._options = options

    def take(
        self,
        step: int,
        groups: Sequence[TableGroup],
        variables: DenseVariables,
        *,
        previous: Manifest | None,
        position: Position | None,
        counters: dict[str, Any],
    ) -> Cut:
        """Begins a cut of all groups and dense variables at once.

        Args:
            step: what it will be saved under.
            groups: the table groups.
            variables: the dense variables.
            previous: the checkpoint to build on; None has a base taken.
            position: where in the input it is taken, or None.
            counters: JSON values to keep.

        Returns:
            The cut; whoever gets it saves it or gives it up.

        Raises:
            CheckpointFailedError: the buffer is full and stays so, since uploads fail; or it could
                not be looked at.
            IncompatibleModelError: tables were updated behind the manager's back.
            InvalidOptionError: the strategy wants fewer bits than `exact` allows.
        """
        stats = check_all_tracked(groups)
        base = previous is None or any(s["base_required"] for s in stats)
        decision = decide(self._policy, self._options)
        base = base or decision.base
        next_interval = 1 if previous is None else previous.interval + 1
        interval = max((s["interval"] for s in stats), default=next_interval)
        reservation = self._reserve(most_bytes(groups, stats, variables.specs, base=base))
        try:
            dense = variables.snapshot()
            begin_cut(
                groups,
                interval=interval,
                base=base,
                hot_threshold=decision.hot_threshold,
                hysteresis=decision.hysteresis,
                rate_half_life_intervals=self._options.rate_half_life_intervals,
                stop_and_copy=decision.stop_and_copy,
                encoding=decision.encoding,
                slot_encoding=decision.slot_encoding,
            )
        except BaseException:
            if self._second is not None:
                self._second.gave_up(reservation, None)
            raise
        return Cut(
            step=step,
            interval=interval,
            base=base,
            groups=list(groups),
            decision=decision,
            dense=dense,
            position=position,
            counters=counters,
            rows_live=sum(s["rows"] for s in stats),
            wall_time=_time_after(previous),
            stall_secs=0.0,
            reservation=reservation,
        )

    def _reserve(self, size: int) -> Reservation:
        if self._second is None:
            return Reservation()
        try:
            return self._second.reserve(size)
        except errors.StorageError as error:
            raise errors.CheckpointFailedError(
                f"The checkpoint was not begun. Training can go on, its rows will be in the next "
                f"one. {error}"
            ) from error


def _time_after(previous: Manifest | None) -> float:
    """Now; but a clock that was set back must not make a checkpoint older than the last one."""
    return time.time() if previous is None else max(time.time(), previous.wall_time)
