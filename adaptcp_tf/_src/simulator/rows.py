# SPDX-License-Identifier: Apache-2.0
"""What the engine's tracker knows of each row, and which rows a cut puts where; all in numpy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from adaptcp_tf._src.policy import Decision, RateHistogram

# As in custom_ops/engine/row_entry.h; `simulator_test` holds them to it.
_RATE_ONE = 65535
_PRIOR_HISTORY = 4
_MAX_HISTORY = 31


@dataclasses.dataclass(frozen=True)
class SavedRows:
    """Rows of one cut by where they go.

    Attributes:
        base: [n] int64, rows of a base.
        increment: [n] int64, cold rows.
        differential: [n] int64, hot rows.
        hot: [n] int64, those of the cut that are hot.
    """

    base: np.ndarray
    increment: np.ndarray
    differential: np.ndarray
    hot: np.ndarray


class SimulatedRows:
    """Rows numbered from 0, and the classes that cuts have given them.

    Args:
        rate_half_life_intervals: after how many intervals an update counts half in a row's rate.
        weights: [n] how many rows each stands for; None: one.
    """

    def __init__(self, rate_half_life_intervals: float = 16.0, weights: np.ndarray | None = None):
        self._weights = weights
        self._decay = 2.0 ** (-1.0 / rate_half_life_intervals)
        window = max(_PRIOR_HISTORY + 1, 1.0 / (1.0 - self._decay))
        self._window = int(min(_MAX_HISTORY, window))
        self._interval = 1
        self._last_updated = np.zeros(0, np.int64)  # 0: never
        self._rate = np.zeros(0, np.int64)
        self._history = np.zeros(0, np.int64)
        self._hot = np.zeros(0, bool)
        self._standing = np.zeros(0, bool)

    @property
    def live(self) -> int:
        """How many rows there are."""
        return self.count(np.flatnonzero(self._last_updated))

    def count(self, rows: np.ndarray) -> int:
        """How many rows these, numbers without repetitions, stand for."""
        return len(rows) if self._weights is None else round(float(self._weights[rows].sum()))

    def update(self, rows: np.ndarray) -> None:
        """Updates rows in the open interval.

        Args:
            rows: [n] their numbers, with or without repetitions.
        """
        rows = np.unique(rows)
        if len(rows) == 0:
            return
        self._make_room(int(rows[-1]) + 1)
        rows = rows[self._last_updated[rows] != self._interval]
        new = self._last_updated[rows] == 0
        self._history[rows[new]] = _PRIOR_HISTORY
        gaps = np.where(new, 1, self._interval - self._last_updated[rows])
        self._count_update(rows, gaps)
        self._last_updated[rows] = self._interval

    def _make_room(self, size: int) -> None:
        missing = size - len(self._rate)
        if missing <= 0:
            return
        # Twice as much as needed, so that a growing stream does not copy all rows each time.
        missing += size
        for name in ("_last_updated", "_rate", "_history", "_hot", "_standing"):
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros(missing, values.dtype)]))

    def _count_update(self, rows: np.ndarray, gaps: np.ndarray) -> None:
        history = self._history[rows] + gaps
        weight = np.where(history <= self._window, 1.0 / history, 1.0 - self._decay)
        rate = self._decayed(rows, gaps - 1) * (1.0 - weight) + _RATE_ONE * weight
        self._rate[rows] = (rate + 0.5).astype(np.int64)
        self._history[rows] = np.minimum(history, _MAX_HISTORY)

    def _decayed(self, rows: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """Rates, 0 to _RATE_ONE, after so many silent intervals."""
        rate, history = self._rate[rows].astype(np.float64), self._history[rows]
        averaged = np.minimum(gaps, np.maximum(0, self._window - history))
        mean = rate * history.astype(np.float64) / (history + averaged)
        return np.where(gaps == 0, rate, mean * self._decay ** (gaps - averaged))

    def cut(self, decision: Decision, base: bool) -> SavedRows:
        """Closes the interval, and gives the rows of the cut their classes.

        Args:
            decision: of the policy.
            base: whether the cut is a base, because the policy says so or it must be.
        """
        if base:
            saved = np.flatnonzero(self._last_updated)
        else:
            saved = np.flatnonzero((self._last_updated == self._interval) | self._standing)
        hot = self._is_hot(saved, decision)
        self._hot[saved] = hot
        self._standing[saved] = hot & (not base)
        self._interval += 1
        nothing = saved[:0]
        return SavedRows(
            base=saved if base else nothing,
            increment=nothing if base else saved[~hot],
            differential=nothing if base else saved[hot],
            hot=saved[hot],
        )

    def _is_hot(self, rows: np.ndarray, decision: Decision) -> np.ndarray:
        # The engine is given single precision.
        threshold, hysteresis = (
            float(np.float32(value)) for value in (decision.hot_threshold, decision.hysteresis)
        )
        if threshold <= 0 or threshold > 1:
            return np.full(len(rows), threshold <= 0)
        rates = self._decayed(rows, self._interval - self._last_updated[rows]) / _RATE_ONE
        band = np.where(self._hot[rows], 1 - hysteresis, 1 + hysteresis)
        return rates >= np.minimum(1.0, threshold * band)

    def rates(self, bins_per_octave: int = 4, bins: int = 64) -> RateHistogram:
        """Returns the rows' rates at the end of the last closed interval, in the engine's bins."""
        rows = np.flatnonzero(self._last_updated)
        closed = self._interval - 1
        gaps = closed - np.minimum(closed, self._last_updated[rows])
        rates = self._decayed(rows, gaps)
        octaves = math.log2(_RATE_ONE) - np.log2(np.maximum(rates, 1.0))
        bin_of = np.minimum(bins - 1, (octaves * bins_per_octave).astype(np.int64))
        bin_of[rates < 1] = bins - 1
        weights = np.ones(len(rows)) if self._weights is None else self._weights[rows]
        counts = np.bincount(bin_of, weights=weights, minlength=bins)
        sums = np.bincount(bin_of, weights=weights * rates / _RATE_ONE, minlength=bins)
        return RateHistogram.of_sums([(counts, sums)])
