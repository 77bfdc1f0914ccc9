# SPDX-License-Identifier: Apache-2.0
"""Rows whose popularity follows Zipf's law, as many as anybody likes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adaptcp_tf import errors

# Strata of the rows that are sampled, per power of ten of their rank.
_STRATA_PER_DECADE = 20


class ZipfPopulation:
    """A table's rows, of which the popular ones are simulated one by one and the others by a sample.

    An interval makes `updates` draws; row number k is drawn with a probability proportional to
    k ** -exponent, so it is updated in an interval with probability 1 - exp(-draws of k).

    Args:
        rows: how many rows there are.
        updates: draws per interval.
        exponent: of Zipf's law; 0 makes all rows equal.
        sample_rows: how many rows are simulated at most.
        seed: populations of equal arguments are equal.
    """

    def __init__(
        self,
        rows: int,
        updates: float,
        exponent: float = 1.05,
        *,
        sample_rows: int = 200_000,
        seed: int = 0,
    ):
        if rows < 1 or updates <= 0 or exponent < 0 or sample_rows < 2:
            raise errors.InvalidOptionError(
                f"Invalid population. Received: {rows} rows, {updates} updates, exponent {exponent}, "
                f"a sample of {sample_rows}. Expected: positive numbers, an exponent of at least 0 "
                "and a sample of at least 2."
            )
        self._rng = np.random.default_rng(seed)
        head = min(rows, sample_rows // 2)
        ranks, weights = self._sample_tail(head, rows, sample_rows - head)
        self.ranks = np.concatenate([np.arange(1, head + 1, dtype=np.float64), ranks])
        # How many rows each simulated one stands for.
        self.weights = np.concatenate([np.ones(head), weights])
        popularity = self.ranks**-exponent
        self.rates = -np.expm1(-updates * popularity / (popularity @ self.weights))

    def _sample_tail(self, head: int, rows: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        if rows == head:
            return np.zeros(0), np.zeros(0)
        decades = np.log10(rows / max(head, 1))
        strata = max(1, int(np.ceil(decades * _STRATA_PER_DECADE)))
        edges = np.unique(np.round(np.geomspace(max(head, 1), rows, strata + 1)))
        edges[0] = head
        ranks, weights = [], []
        for low, high in zip(edges[:-1], edges[1:]):
            drawn = int(min(high - low, max(1, size // (len(edges) - 1))))
            ranks.append(low + 1 + self._rng.random(drawn) * (high - low - 1))
            weights.append(np.full(drawn, (high - low) / drawn))
        return np.concatenate(ranks), np.concatenate(weights)

    def updates(self, intervals: int) -> Iterator[np.ndarray]:
        """Yields, per interval, the numbers of the simulated rows that it updates: [n] int64."""
        for _ in range(intervals):
            yield np.flatnonzero(self._rng.random(len(self.rates)) < self.rates)
