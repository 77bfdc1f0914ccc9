# SPDX-License-Identifier: Apache-2.0
"""Which rows are cheaper in differentials."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from adaptcp_tf._src.policy.cost_model.bisection import bisect
from adaptcp_tf._src.policy.cost_model.checks import (
    ROUNDING,
    as_rates,
    check,
    check_share,
    schedule,
)

# An update rate is at most 1, so nothing is hot above it.
_ALL_COLD = 2.0
_ALL_HOT = 0.0


@dataclasses.dataclass(frozen=True)
class ThresholdSolution:
    """Which scheme wins where.

    Attributes:
        value: rate below which incremental is cheaper and above which differential is, or None.
        winner: "both" when `value` splits the rows, else the scheme that never costs more.
        reason: one sentence that says why.
    """

    value: float | None
    winner: str
    reason: str

    @property
    def hot_threshold(self) -> float:
        """The threshold as a policy takes it: 0 when every row is hot, above 1 when none is."""
        if self.value is not None:
            return self.value
        return _ALL_HOT if self.winner == "differential" else _ALL_COLD


def threshold(
    checkpoints: int,
    rho: float,
    *,
    stale_skip: float = 0.0,
    write_weights: Sequence[float] | None = None,
    failure_distribution: Sequence[float] | None = None,
) -> float | None:
    """Returns the rate above which a row belongs into differentials, or None if there is none.

    `solve_threshold` has the derivation, and says who wins when there is no threshold.

    Example:
        >>> round(threshold(10, 1.0), 3)
        0.676

    Args:
        checkpoints: checkpoints per base period.
        rho: read cost over write cost of a row copy, see `measured_rho`; infinite if writes are
            free.
        stale_skip: share of the copies that are not the newest which a restore does not read.
        write_weights: relative write cost of each checkpoint; equal by default.
        failure_distribution: probability that a failure falls after each checkpoint; uniform by
            default.

    Returns:
        The threshold in (0, 1), in updates per interval, or None.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    return solve_threshold(
        checkpoints,
        rho,
        stale_skip=stale_skip,
        write_weights=write_weights,
        failure_distribution=failure_distribution,
    ).value


def solve_threshold(
    checkpoints: int,
    rho: float,
    *,
    stale_skip: float = 0.0,
    write_weights: Sequence[float] | None = None,
    failure_distribution: Sequence[float] | None = None,
) -> ThresholdSolution:
    """Returns the rate at which both schemes cost the same, or why one of them always wins.

    The threshold is AdaptCP's (Kuaishou and Beihang University, EuroSys 2027). That it is the only
    zero of D = C_D - C_I in (0, 1) shows once p is divided out: with (1 - q^k) / p = 1 + q + ... +
    q^(k-1), and the tails W_j = sum_{k>j} w_k and P_j = sum_{k>j} pi_k,

        D(p) / (w p) = sum_{j=1}^{N-1} (W_j q^j - rho (1 - s) P_j (1 - q^j)).

    Every term falls as p grows, from sum W_j at p = 0 to -rho (1 - s) sum P_j at p = 1. So there is
    one zero if both sums and rho (1 - s) are positive; bisection finds it to the last few bits.

    Example:
        >>> solve_threshold(10, rho=0.0).winner
        'incremental'

    Args:
        checkpoints: checkpoints per base period.
        rho: read cost over write cost of a row copy; infinite if writes are free.
        stale_skip: share of the copies that are not the newest which a restore does not read.
        write_weights: relative write cost of each checkpoint; equal by default.
        failure_distribution: probability that a failure falls after each checkpoint; uniform by
            default.

    Returns:
        The threshold, or the scheme that never costs more. A tie goes to incremental.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    write, read = _relative_costs(rho, stale_skip)
    weights, positions = schedule(checkpoints, write_weights, failure_distribution)
    write_tails, read_tails = write * _tails(weights), read * _tails(positions)
    if not read_tails.any():
        reason = _why_always_incremental(checkpoints, rho, stale_skip)
        return ThresholdSolution(None, "incremental", reason)
    if not write_tails.any():
        reason = "Writing costs nothing after the first checkpoint, and a differential reads less."
        return ThresholdSolution(None, "differential", reason)
    later = np.arange(1, len(weights))

    def differential_pays_at(rate: float) -> bool:
        log_untouched = later * math.log1p(-rate)
        write_excess = np.dot(write_tails, np.exp(log_untouched))
        return bool(write_excess + np.dot(read_tails, np.expm1(log_untouched)) < 0)

    value = bisect(differential_pays_at, math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0))
    return ThresholdSolution(
        value, "both", "Rows below the threshold save writes, rows above it save reads."
    )


def differential_pays(
    touched_within: Sequence[float],
    rho: float,
    *,
    stale_skip: float = 0.0,
    write_weights: Sequence[float] | None = None,
    failure_distribution: Sequence[float] | None = None,
) -> bool:
    """Returns whether a row, bursty or not, is cheaper in differentials.

    A rate describes a row only if its updates are independent from interval to interval. For any
    other row let u_k be the probability that it is touched within k intervals. It is in the k-th
    differential with probability u_k, in each increment with u_1, so that differential is cheaper
    if and only if

        sum w_k (u_k - u_1) + rho (1 - s) sum pi_k (u_k - k u_1) < 0,

    which is the rule of `solve_threshold` when u_k = 1 - (1 - p)^k. Only the newest copy is never
    stale and there is one with probability u_k, hence the factor 1 - s.

    Example:
        >>> differential_pays([0.8, 0.96, 0.992], rho=2.0)
        True

    Args:
        touched_within: probability that the row is touched within 1, 2, ... intervals, up to the
            checkpoints per base period.
        rho: read cost over write cost of a row copy; infinite if writes are free.
        stale_skip: share of the copies that are not the newest which a restore does not read.
        write_weights: relative write cost of each checkpoint; equal by default.
        failure_distribution: probability that a failure falls after each checkpoint; uniform by
            default.

    Returns:
        True if differential costs less; False if incremental does, or both cost the same.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    touched = as_rates("touched_within", touched_within)
    check(
        touched.ndim == 1 and touched.size > 0 and bool(np.all(np.diff(touched) >= -ROUNDING)),
        "touched_within",
        touched_within,
        "one probability a checkpoint, none below the one before",
    )
    write, read = _relative_costs(rho, stale_skip)
    weights, positions = schedule(len(touched), write_weights, failure_distribution)
    copies = touched[0] * np.arange(1, len(touched) + 1)
    excess = write * np.dot(weights, touched - touched[0]) + read * np.dot(
        positions, touched - copies
    )
    return bool(excess < 0)


def _relative_costs(rho: float, stale_skip: float) -> tuple[float, float]:
    """Returns write and read cost up to a common factor that keeps both finite."""
    check(rho >= 0, "rho", rho, "at least 0")
    check_share("stale_skip", stale_skip)
    return (1 / rho, 1 - stale_skip) if rho > 1 else (1.0, rho * (1 - stale_skip))


def _tails(weights: np.ndarray) -> np.ndarray:
    """Returns the sums of the weights after the 1st, 2nd, ... last but one."""
    return np.cumsum(weights[::-1])[::-1][1:]


def _why_always_incremental(checkpoints: int, rho: float, stale_skip: float) -> str:
    if checkpoints == 1:
        return "With one checkpoint a base period both schemes cost the same."
    if rho == 0:
        return "Reading costs nothing, and an increment writes less."
    if stale_skip == 1:
        return "A restore skips every stale copy, so both schemes read the same rows."
    return "Every failure falls after the first checkpoint, where both schemes read the same rows."
