# SPDX-License-Identifier: Apache-2.0
"""Finds the hot threshold and the base period from what was measured while training."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from adaptcp_tf._src.policy import cost_model
from adaptcp_tf._src.policy.rates import RateHistogram

ALL_HOT = 0.0
# An update rate is at most 1, so nothing is hot above it.
ALL_COLD = 2.0

# Base periods to choose from: about 12 % apart, so at most 0.2 % from the best cost.
_PERIODS = np.unique(np.round(np.geomspace(2, 2000, 64)))
# Two classes are worth their files and their reads only if they save this much of the cost.
_MIN_SAVING = 0.01


@dataclasses.dataclass(frozen=True)
class CostInputs:
    """What the solver needs to know; all of it is measured, or given by the user.

    Attributes:
        write_secs_per_row: seconds by which training gets longer for each row written.
        read_secs_per_row: seconds of restore for each row read.
        interval_secs: seconds between two checkpoints.
        mean_secs_between_failures: seconds of training from one restart to the next.
        base_secs_per_row: the same for the rows of a base; None: no different.
        stale_skip: share of the stale copies that a restore does not read, 0 to 1.
    """

    write_secs_per_row: float
    read_secs_per_row: float
    interval_secs: float
    mean_secs_between_failures: float
    base_secs_per_row: float | None = None
    stale_skip: float = 0.0

    def restores_per_base(self, period: Any) -> Any:
        """Expected restores while `period` checkpoints are taken."""
        return period * self.interval_secs / self.mean_secs_between_failures


@dataclasses.dataclass(frozen=True)
class Solution:
    """What the solver decided, and why.

    Attributes:
        hot_threshold: updates per interval from which a row is hot; 0 makes all rows hot, above 1
            none is.
        base_period: take a base every so many checkpoints.
        rho: read cost over write cost of a row copy, in seconds, times the restores per base.
        cost_secs: expected seconds lost per base period, by writing and by restoring.
        incremental_secs: the same if every row were cold.
        differential_secs: the same if every row were hot.
        reason: one sentence.
    """

    hot_threshold: float
    base_period: int
    rho: float
    cost_secs: float
    incremental_secs: float
    differential_secs: float
    reason: str


def solve(inputs: CostInputs, rates: RateHistogram, *, base_period: int | None = None) -> Solution:
    """Chooses threshold and base period with the least expected loss of training time.

    Per base period of N checkpoints a base costs a write of every row, and each row the cheaper of
    its two classes, by the cost model of AdaptCP (Kuaishou and Beihang University, EuroSys 2027).
    For rows that are all cold the best N is that of `cost_model.base_period`. When keeping both
    classes saves next to nothing, all rows go into the better one.

    Example:
        >>> solve(inputs, rates).hot_threshold
        0.41

    Args:
        inputs: what was measured.
        rates: the rows and their update rates.
        base_period: checkpoints per base, if it is not to be chosen.
    """
    periods = _PERIODS if base_period is None else np.array([float(base_period)])
    incremental, differential = _class_costs(inputs, rates, periods)
    hybrid = np.minimum(incremental, differential) @ rates.rows
    base_secs_per_row = inputs.base_secs_per_row
    if base_secs_per_row is None:
        base_secs_per_row = inputs.write_secs_per_row
    base = base_secs_per_row * rates.rows.sum()
    best = int(np.argmin((base + hybrid) / periods))
    period = int(periods[best])
    return _choose_classes(
        inputs,
        period,
        base=float(base),
        hybrid=float(hybrid[best]),
        incremental=float(incremental[best] @ rates.rows),
        differential=float(differential[best] @ rates.rows),
    )


def _class_costs(
    inputs: CostInputs, rates: RateHistogram, periods: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds lost per row and base period: [periods, bins] as cold rows and as hot rows."""
    incremental = np.empty((len(periods), len(rates.rates)))
    differential = np.empty_like(incremental)
    for i, period in enumerate(periods):
        costs = {
            "checkpoints": int(period),
            "write_cost": inputs.write_secs_per_row,
            "read_cost": inputs.read_secs_per_row * inputs.restores_per_base(period),
        }
        incremental[i] = cost_model.incremental_cost(
            rates.rates, stale_skip=inputs.stale_skip, **costs
        )
        differential[i] = cost_model.differential_cost(rates.rates, **costs)
    return incremental, differential


def _choose_classes(
    inputs: CostInputs,
    period: int,
    *,
    base: float,
    hybrid: float,
    incremental: float,
    differential: float,
) -> Solution:
    rho = np.inf
    if inputs.write_secs_per_row > 0:
        rho = inputs.read_secs_per_row * inputs.restores_per_base(period)
        rho /= inputs.write_secs_per_row
    interior = cost_model.solve_threshold(period, rho, stale_skip=inputs.stale_skip)
    pure = min(incremental, differential)
    if interior.value is None:
        threshold = interior.hot_threshold
        cost, reason = pure, interior.reason
    elif pure - hybrid < _MIN_SAVING * pure:
        threshold = ALL_COLD if incremental <= differential else ALL_HOT
        better = "increments" if incremental <= differential else "differentials"
        cost, reason = pure, f"Two classes would save less than 1 % over {better} alone."
    else:
        threshold, cost = interior.value, hybrid
        reason = "Both classes are cheaper than one."
    return Solution(
        hot_threshold=float(threshold),
        base_period=period,
        rho=float(rho),
        cost_secs=base + cost,
        incremental_secs=base + incremental,
        differential_secs=base + differential,
        reason=reason,
    )
