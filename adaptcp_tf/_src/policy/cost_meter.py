# SPDX-License-Identifier: Apache-2.0
"""Learns from checkpoints, restores and restarts what they cost."""

from __future__ import annotations

import dataclasses
from typing import Any

from adaptcp_tf._src.policy.cost_model import checkpoint_interval
from adaptcp_tf._src.policy.reports import CutReport, RestoreSample
from adaptcp_tf._src.policy.solver import CostInputs
from adaptcp_tf._src.policy.state import read_fields

# A run that never failed is taken to fail once a day.
_PRIOR_SECS_BETWEEN_FAILURES = 86400.0
# Weight of the newest checkpoint in the means, once there are enough: a half-life of 8.
_WEIGHT = 0.083
# Copying costs training something even where its steps do not show it: memory is no faster.
_MIN_LOST_SECS_PER_BYTE = 1e-10
_MIN_STALL_SECS = 1e-5
# Rows touched in T seconds grow about like T ** 0.75 on click streams.
_ROW_GROWTH = 0.75
_MIN_INTERVAL_SECS = 1.0
_MAX_INTERVAL_SECS = 3600.0


@dataclasses.dataclass
class _Means:
    """Exponentially weighted means over checkpoints, each of one that wrote something."""

    checkpoints: int = 0
    bytes: float = 0.0
    rows: float = 0.0
    stall_secs: float = 0.0
    lost_secs: float = 0.0
    durable_secs: float = 0.0
    interval_secs: float = 0.0

    def add(self, report: CutReport) -> None:
        self.checkpoints += 1
        weight = max(_WEIGHT, 1 / self.checkpoints)
        for name, value in (
            ("bytes", report.bytes),
            ("rows", report.rows_hot + report.rows_cold),
            ("stall_secs", report.stall_secs),
            ("lost_secs", report.lost_secs),
            ("durable_secs", report.seconds_to_durable),
            ("interval_secs", report.interval_secs),
        ):
            mean = getattr(self, name)
            setattr(self, name, mean + weight * (value - mean))

    @property
    def lost_secs_per_row(self) -> float:
        """Seconds by which training got longer for each row written."""
        return max(self.lost_secs, _MIN_LOST_SECS_PER_BYTE * self.bytes) / self.rows


class CostMeter:
    """Measures a run for the solver.

    Args:
        mean_secs_between_failures: seconds of training between two restarts, if known; otherwise
            it is learnt from the restarts that the manifests tell of.
    """

    def __init__(self, mean_secs_between_failures: float | None = None):
        self._given_secs_between_failures = mean_secs_between_failures
        self._means = _Means()
        # Apart: a base reads every row from the tables, and training may have to wait for it.
        self._bases = _Means()
        self._trained_secs = 0.0
        self._restarts = 0
        self._restore: RestoreSample | None = None

    def observe(self, report: CutReport) -> None:
        """Learns from a checkpoint that was committed."""
        self._trained_secs += report.interval_secs
        if report.rows_hot + report.rows_cold > 0:
            (self._bases if report.base else self._means).add(report)

    def observe_restore(self, sample: RestoreSample) -> None:
        """Learns from a restore of this run."""
        if sample.bytes > 0:
            self._restore = sample

    @property
    def mean_secs_between_failures(self) -> float:
        """Seconds of training from one restart to the next: as given, or as learnt."""
        if self._given_secs_between_failures is not None:
            return self._given_secs_between_failures
        return (self._trained_secs + _PRIOR_SECS_BETWEEN_FAILURES) / (self._restarts + 1)

    def inputs(self) -> CostInputs | None:
        """Returns what was measured, or None before the first checkpoint that says something."""
        means = self._deltas()
        if means is None:
            return None
        return CostInputs(
            write_secs_per_row=means.lost_secs_per_row,
            base_secs_per_row=self._bases.lost_secs_per_row if self._bases.checkpoints else None,
            read_secs_per_row=self._read_secs_per_byte() * means.bytes / means.rows,
            interval_secs=means.interval_secs,
            mean_secs_between_failures=self.mean_secs_between_failures,
            stale_skip=0.0 if self._restore is None else self._restore.stale_skip,
        )

    def _deltas(self) -> _Means | None:
        """Means of checkpoints that are no base; as long as there is none, of bases."""
        means = self._means if self._means.checkpoints else self._bases
        return means if means.checkpoints and means.interval_secs > 0 else None

    def interval_secs(self) -> float | None:
        """Returns the seconds between checkpoints that lose least, None while nothing is known."""
        means = self._deltas()
        if means is None:
            return None
        # What stops training does not depend on the rows; the rest follows those that were touched.
        fixed = max(means.stall_secs, _MIN_STALL_SECS)
        by_rows = max(0.0, means.lost_secs - means.stall_secs)
        best = checkpoint_interval(
            fixed,
            by_rows / means.interval_secs**_ROW_GROWTH,
            self.mean_secs_between_failures,
            growth=_ROW_GROWTH,
        )
        return min(max(best, _MIN_INTERVAL_SECS), _MAX_INTERVAL_SECS)

    def _read_secs_per_byte(self) -> float:
        """As of the latest restore; before it, reading is taken to be as fast as saving was."""
        if self._restore is not None:
            return self._restore.seconds / self._restore.bytes
        both = (self._means, self._bases)
        return sum(means.durable_secs for means in both) / sum(means.bytes for means in both)

    def state(self) -> dict[str, Any]:
        """Returns what the manifest keeps, as JSON values."""
        return {
            "means": dataclasses.asdict(self._means),
            "bases": dataclasses.asdict(self._bases),
            "trained_secs": self._trained_secs,
            "restarts": self._restarts,
            "restore": None if self._restore is None else dataclasses.asdict(self._restore),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues a run that was interrupted."""
        self._means = read_fields(_Means, state.get("means")) or _Means()
        self._bases = read_fields(_Means, state.get("bases")) or _Means()
        self._trained_secs = float(state.get("trained_secs", 0.0))
        self._restarts = int(state.get("restarts", 0)) + 1
        self._restore = read_fields(RestoreSample, state.get("restore"))
