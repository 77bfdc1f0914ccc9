# SPDX-License-Identifier: Apache-2.0
"""What a population of rows costs when a threshold splits it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from adaptcp_tf._src.policy.cost_model.checks import (
    as_count,
    as_rates,
    as_weights,
    check,
    check_costs,
    check_share,
    schedule,
)
from adaptcp_tf._src.policy.cost_model.row_costs import (
    differential_copies,
    incremental_copies,
    touched,
)


@dataclasses.dataclass(frozen=True)
class HybridCost:
    """Expected cost of a population over a base period, in the unit of the costs given.

    Attributes:
        write: what training loses to writing.
        read: what restores lose to reading.
    """

    write: float
    read: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.write + self.read


@dataclasses.dataclass(frozen=True)
class ClassRows:
    """Expected row copies of each class.

    Attributes:
        hot: copies in a differential.
        cold: copies in increments.
    """

    hot: float
    cold: float


def hybrid_cost(
    rates: ArrayLike,
    counts: ArrayLike,
    threshold: float,
    checkpoints: int,
    write_cost: float,
    read_cost: float,
    *,
    stale_skip: float = 0.0,
    write_weights: Sequence[float] | None = None,
    failure_distribution: Sequence[float] | None = None,
) -> HybridCost:
    """Returns what a population of rows costs per base period when split at a threshold.

    The sum of `differential_cost` over the rows at or above the threshold and of `incremental_cost`
    over the others. At the threshold of `solve_threshold` it is each row's minimum, so that it is
    never above what either scheme costs alone.

    Example:
        >>> hybrid_cost([0.0, 1.0], [900, 100], 0.5, 8, write_cost=1.0, read_cost=2.0)
        HybridCost(write=800.0, read=200.0)

    Args:
        rates: update rate of each bin of rows.
        counts: rows in each bin.
        threshold: rate from which a row is hot; 0 makes all rows differential, above 1 none.
        checkpoints: checkpoints per base period.
        write_cost: cost of writing one copy, as training sees it.
        read_cost: cost of reading one copy, times the expected restores per base period.
        stale_skip: share of the copies that are not the newest which a restore does not read.
        write_weights: factor on `write_cost` at each checkpoint; 1 by default.
        failure_distribution: probability that a failure falls after each checkpoint; uniform by
            default.

    Returns:
        The costs of writing and of reading, in the unit of `write_cost` and `read_cost`.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    rates, hot, cold = _split(rates, counts, threshold)
    check_costs(write_cost, read_cost, stale_skip)
    weights, positions = schedule(checkpoints, write_weights, failure_distribution)
    hot_writes, hot_reads = differential_copies(rates, weights, positions)
    cold_writes, cold_reads = incremental_copies(rates, weights, positions, stale_skip)
    return HybridCost(
        write=write_cost * float(hot @ hot_writes + cold @ cold_writes),
        read=read_cost * float(hot @ hot_reads + cold @ cold_reads),
    )


def expected_write_rows(
    rates: ArrayLike, counts: ArrayLike, threshold: float, checkpoint: int
) -> ClassRows:
    """Returns how many rows of each class a checkpoint writes.

    A hot row is in the k-th differential with probability 1 - (1 - p)^k, a cold one in any
    increment with probability p.

    Example:
        >>> expected_write_rows([0.25, 0.5], [100, 100], 0.5, checkpoint=2)
        ClassRows(hot=75.0, cold=25.0)

    Args:
        rates: update rate of each bin of rows.
        counts: rows in each bin.
        threshold: rate from which a row is hot.
        checkpoint: its place after the base, from 1.

    Returns:
        The expected rows.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    rates, hot, cold = _split(rates, counts, threshold)
    last = _only(as_count("checkpoint", checkpoint))
    return ClassRows(hot=float(hot @ touched(rates, last)), cold=float(cold @ rates))


def expected_read_rows(
    rates: ArrayLike,
    counts: ArrayLike,
    threshold: float,
    checkpoint: int,
    *,
    stale_skip: float = 0.0,
) -> ClassRows:
    """Returns how many row copies of each class a restore reads besides the base.

    Of the hot rows those in the k-th differential; of a cold row its newest copy, if there is one,
    and a share 1 - s of the others: (1 - s) k p + s (1 - (1 - p)^k).

    Example:
        >>> expected_read_rows([0.25, 0.5], [100, 100], 0.5, checkpoint=2)
        ClassRows(hot=75.0, cold=50.0)

    Args:
        rates: update rate of each bin of rows.
        counts: rows in each bin.
        threshold: rate from which a row is hot.
        checkpoint: place after the base of the checkpoint that is restored, from 1.
        stale_skip: share of the copies that are not the newest which the restore does not read.

    Returns:
        The expected row copies.

    Raises:
        InvalidOptionError: an argument is out of its range or of the wrong length.
    """
    rates, hot, cold = _split(rates, counts, threshold)
    check_share("stale_skip", stale_skip)
    last = _only(as_count("checkpoint", checkpoint))
    _, hot_reads = differential_copies(rates, last, last)
    _, cold_reads = incremental_copies(rates, last, last, stale_skip)
    return ClassRows(hot=float(hot @ hot_reads), cold=float(cold @ cold_reads))


def _only(checkpoint: int) -> np.ndarray:
    weights = np.zeros(checkpoint)
    weights[-1] = 1.0
    return weights


def _split(
    rates: ArrayLike, counts: ArrayLike, threshold: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rates = np.atleast_1d(as_rates("rates", rates))
    check(rates.ndim == 1, "rates", rates, "one rate a bin")
    counts = as_weights("counts", np.atleast_1d(counts), len(rates))
    check(
        threshold is not None and threshold >= 0,
        "threshold",
        threshold,
        "a number, at least 0; where there is no threshold, ThresholdSolution.hot_threshold",
    )
    is_hot = rates >= threshold
    return rates, np.where(is_hot, counts, 0.0), np.where(is_hot, 0.0, counts)
