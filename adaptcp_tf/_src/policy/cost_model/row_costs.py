# SPDX-License-Identifier: Apache-2.0
"""What a row costs as an incremental or a differential one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from adaptcp_tf._src.policy.cost_model.checks import as_rates, check_costs, schedule

# Expected updates per base period below which the closed form of S_N loses more than a digit, and
# the terms after which its series is exact to a float.
_SERIES_BELOW = 0.5
_SERIES_TERMS = 16


def incremental_cost(
    rate: ArrayLike,
    checkpoints: int,
    write_cost: float,
    read_cost: float,
    *,
    stale_skip: float = 0.0,
    write_weights: Sequence[float] | None = None,
    failure_distribution: Sequence[float] | None = None,
) -> float | np.ndarray:
    """Returns the expected cost per base period of a row that goes into increments.

    A row updated with probability p in each interval is in each increment with probability p, and a
    restore after checkpoint k reads all its copies, k p of them. With N checkpoints and a failure
    equally likely after each, C_I(p) = p (w N + r (N + 1) / 2), as in AdaptCP (Kuaishou and Beihang
    University, EuroSys 2027). A restore that goes newest first always reads the newest copy, which
    exists with probability 1 - (1 - p)^k, and skips a share s of the others; with write weights w_k
    and failure positions pi_k the cost is
    w p sum w_k + r sum pi_k ((1 - s) k p + s (1 - (1 - p)^k)).

    Example:
        >>> incremental_cost(0.5, checkpoints=10, write_cost=1.0, read_cost=2.0)
        10.5

    Args:
        rate: probability that the row is updated in an interval; a scalar or an array.
        checkpoints: checkpoints per base period.
        write_cost: cost of writing one copy, as training sees it.
        read_cost: cost of reading one copy, times the expected restores per base period.
        stale_skip: share of the copies that are not the newest which a restore does not read.
        write_weights: factor on `write_cost` at each checkpoint; 1 by default.
        failure_distribution: probability that a failure falls after each checkpoint; uniform by
            default.

    Returns:
        The cost in the unit of `write_cost` and `read_cost`, shaped as `rate`.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    rate = as_rates("rate", rate)
    check_costs(write_cost, read_cost, stale_skip)
    weights, positions = schedule(checkpoints, write_weights, failure_distribution)
    writes, reads = incremental_copies(rate, weights, positions, stale_skip)
    return _plain(write_cost * writes + read_cost * reads)


def differential_cost(
    rate: ArrayLike,
    checkpoints: int,
    write_cost: float,
    read_cost: float,
    *,
    write_weights: Sequence[float] | None = None,
    failure_distribution: Sequence[float] | None = None,
) -> float | np.ndarray:
    """Returns the expected cost per base period of a row that goes into differentials.

    The k-th differential holds every row updated since the base (as in Check-N-Run, Eisenman et
    al., NSDI 2022), this one with probability 1 - q^k, q = 1 - p, and a restore reads the newest
    differential only. Summed over the N checkpoints that is S_N(p) = N - q (1 - q^N) / p, hence
    C_D(p) = (w + r / N) S_N(p), as in AdaptCP (Kuaishou and Beihang University, EuroSys 2027). With
    write weights w_k and failure positions pi_k the cost is sum (w w_k + r pi_k) (1 - q^k). There
    are no stale copies to skip.

    Example:
        >>> differential_cost(1.0, checkpoints=10, write_cost=1.0, read_cost=2.0)
        12.0

    Args:
        rate: probability that the row is updated in an interval; a scalar or an array.
        checkpoints: checkpoints per base period.
        write_cost: cost of writing one copy, as training sees it.
        read_cost: cost of reading one copy, times the expected restores per base period.
        write_weights: factor on `write_cost` at each checkpoint; 1 by default.
        failure_distribution: probability that a failure falls after each checkpoint; uniform by
            default.

    Returns:
        The cost in the unit of `write_cost` and `read_cost`, shaped as `rate`.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    rate = as_rates("rate", rate)
    check_costs(write_cost, read_cost, 0.0)
    weights, positions = schedule(checkpoints, write_weights, failure_distribution)
    writes, reads = differential_copies(rate, weights, positions)
    return _plain(write_cost * writes + read_cost * reads)


def touched(rates: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns sum_k weights[k] (1 - q^k)."""
    if np.all(weights == weights[0]):
        return weights[0] * _copies_in_differentials(rates, len(weights))
    with np.errstate(divide="ignore"):
        log_untouched = np.log1p(-rates)
    total = np.zeros_like(rates)
    for k in np.flatnonzero(weights):
        total = total - weights[k] * np.expm1((k + 1) * log_untouched)
    return total


def incremental_copies(
    rates: np.ndarray, weights: np.ndarray, positions: np.ndarray, stale_skip: float
) -> tuple[np.ndarray, np.ndarray]:
    mean_position = np.dot(positions, np.arange(1, len(positions) + 1))
    newest = stale_skip * touched(rates, positions) if stale_skip > 0 else 0.0
    return rates * weights.sum(), (1 - stale_skip) * mean_position * rates + newest


def differential_copies(
    rates: np.ndarray, weights: np.ndarray, positions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    writes = touched(rates, weights)
    # The usual case, in which the reads are the same sum in other units.
    if weights[0] > 0 and np.all(weights * positions[0] == positions * weights[0]):
        return writes, writes * (positions[0] / weights[0])
    return writes, touched(rates, positions)


def _copies_in_differentials(rates: np.ndarray, checkpoints: int) -> np.ndarray:
    """Returns S_N, by its closed form unless that would cancel."""
    often = rates * checkpoints > _SERIES_BELOW
    seldom_rates = np.where(often, 0.0, rates)
    # S_N = sum_i (-1)^(i+1) binomial(N + 1, i + 1) p^i; each term is less than a fifth of the last.
    term = series = checkpoints * (checkpoints + 1) / 2 * seldom_rates
    for i in range(1, min(checkpoints, _SERIES_TERMS)):
        term = term * seldom_rates * ((i - checkpoints) / (i + 2))
        series = series + term
    often_rates = np.where(often, rates, 1.0)
    with np.errstate(divide="ignore"):
        touched = -np.expm1(checkpoints * np.log1p(-often_rates))
    closed = checkpoints - (1 - often_rates) * touched / often_rates
    return np.where(often, closed, series)


def _plain(value: np.ndarray) -> float | np.ndarray:
    return value if value.ndim else float(value)
