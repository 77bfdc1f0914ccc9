# SPDX-License-Identifier: Apache-2.0
"""A click stream that looks like Criteo: any batch can be drawn on its own from (seed, index)."""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np

NUM_CATEGORICAL = 26
NUM_DENSE = 13

# Published cardinalities of C1..C26 in the Criteo Kaggle 2014 log.
CARDINALITIES = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)

# Zipf exponents. With those of the large features 8,000 draws give as many distinct values as the
# first 8,000 lines of the real log; those of the small ones lie between 1.05 and 1.2, so that a batch
# has as many distinct ids as in the log (about 13,500 of 2,048 x 26; 2,600 of 256 x 26).
EXPONENTS = (
    *(1.20, 1.20, 1.02, 1.08, 1.20, 1.20, 1.05, 1.20, 1.20, 1.10, 1.05, 1.04, 1.05),
    *(1.20, 1.13, 1.06, 1.20, 1.20, 1.20, 1.05, 1.04, 1.20, 1.20, 1.18, 1.20, 1.22),
)

# Mean and standard deviation of log(1 + x) of I1..I13 in the same lines.
DENSE_LOG_MEANS = (0.79, 2.11, 2.24, 1.73, 7.28, 3.60, 1.53, 2.05, 3.62, 0.37, 0.85, 0.29, 1.89)
DENSE_LOG_STDS = (0.97, 2.13, 1.28, 0.96, 2.87, 1.80, 1.35, 1.18, 1.69, 0.39, 0.74, 0.60, 1.06)

# An id is the feature number (1..26) in the high bits over a hash of the value in the low ones, so
# that one table serves all features without collisions between them.
FEATURE_SHIFT = 56
_LOW_BITS = np.uint64((1 << FEATURE_SHIFT) - 1)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, hence a bijection modulo 2**56

# Up to this rank probabilities are summed exactly; beyond it the sum is within 1e-9 of an integral,
# which inverts in closed form.
_EXACT_RANKS = 4096

_LABEL_WEIGHT = 0.5
_LABEL_BIAS = -2.7  # about 22 % positive, as in the log


class Batch(NamedTuple):
    """One batch of samples.

    ids: `[batch, 26]` int64, one id per categorical feature.
    dense: `[batch, 13]` float32, log-scaled counts.
    labels: `[batch, 1]` float32, 0 or 1.
    """

    ids: np.ndarray
    dense: np.ndarray
    labels: np.ndarray


class Zipf:
    """Draws ranks 1..n with probability proportional to `rank ** -exponent`, by inversion."""

    def __init__(self, n: int, exponent: float):
        self._n = n
        self._power = 1.0 - exponent
        head = np.arange(1, min(n, _EXACT_RANKS) + 1, dtype=np.float64) ** -exponent
        self._cumulative = np.cumsum(head)
        self._head_mass = self._cumulative[-1]
        self._tail_start = len(head) + 0.5
        self._tail_mass = self._tail_integral(n + 0.5)
        self.total_mass = self._head_mass + self._tail_mass
        self._exponent = exponent

    def _tail_integral(self, end: float) -> float:
        """Integral of `x ** -exponent` from the end of the exact ranks to `end`."""
        if self._power == 0.0:
            return float(np.log(end / self._tail_start))
        return (end**self._power - self._tail_start**self._power) / self._power

    def ranks(self, uniforms: np.ndarray) -> np.ndarray:
        """Maps uniforms in [0, 1) of any shape to ranks (int64) of the same shape."""
        mass = uniforms * self.total_mass
        ranks = np.searchsorted(self._cumulative, mass, side="right").astype(np.int64) + 1
        beyond = mass >= self._head_mass
        excess = mass[beyond] - self._head_mass
        if self._power == 0.0:
            positions = self._tail_start * np.exp(excess)
        else:
            base = self._tail_start**self._power + self._power * excess
            positions = base ** (1.0 / self._power)
        ranks[beyond] = np.minimum(np.floor(positions + 0.5).astype(np.int64), self._n)
        return ranks

    def count_above(self, probability: float) -> int:
        """How many ranks are drawn with at least this probability."""
        limit = (probability * self.total_mass) ** (-1.0 / self._exponent)
        return int(min(max(limit, 0.0), self._n))

    def probabilities(self, ranks: np.ndarray) -> np.ndarray:
        """The probability of each rank."""
        return ranks.astype(np.float64) ** -self._exponent / self.total_mass


def feature_id(feature: int | np.ndarray, values: np.ndarray) -> np.ndarray:
    """The ids of a feature's values, which must be below 2**56.

    Args:
      feature: 1..26, or uint64 of the shape of `values`.
      values: integers of any shape.

    Returns:
      int64 ids of the same shape, distinct for distinct values and features.
    """
    low = (values.astype(np.uint64) * _MULTIPLIER) & _LOW_BITS
    return (low | (np.uint64(feature) << np.uint64(FEATURE_SHIFT))).astype(np.int64)


class ClickStream(abc.ABC):
    """An endless stream of samples in time order; any batch can be drawn on its own.

    The label depends on the ids, so that a model has something to learn.

    Args:
      batch_size: samples per batch.
      seed: streams of equal kind, seed and batch size are equal.
    """

    def __init__(self, batch_size: int = 2048, seed: int = 0):
        self.batch_size = batch_size
        self.seed = seed

    def batch(self, index: int) -> Batch:
        """Draws batch `index`; a pure function of (seed, batch size, index)."""
        rng = np.random.default_rng((self.seed, index))
        ids = self._draw_ids(rng)
        dense = rng.standard_normal((self.batch_size, NUM_DENSE), dtype=np.float32)
        dense = np.maximum(dense * np.float32(DENSE_LOG_STDS) + np.float32(DENSE_LOG_MEANS), 0.0)
        return Batch(ids, dense, self._draw_labels(rng, ids, dense))

    def batches(self, start: int, count: int) -> Batch:
        """Draws batches `start` .. `start + count - 1`, stacked along a new first axis."""
        drawn = [self.batch(index) for index in range(start, start + count)]
        return Batch(*(np.stack(parts) for parts in zip(*drawn)))

    @abc.abstractmethod
    def popular_ids(self, count: int) -> np.ndarray:
        """The `count` ids most often drawn, most frequent first: what a trained table would hold.

        Raises:
          ValueError: if all features together have fewer ids.
        """

    @abc.abstractmethod
    def _draw_ids(self, rng: np.random.Generator) -> np.ndarray:
        """`[batch, 26]` int64."""

    def _draw_labels(
        self, rng: np.random.Generator, ids: np.ndarray, dense: np.ndarray
    ) -> np.ndarray:
        # Twenty bits of the hashed id serve as a hidden weight in [-1, 1).
        hidden = ((ids >> 20) & 0xFFFFF).astype(np.float32) / np.float32(1 << 19) - 1.0
        logits = _LABEL_BIAS + _LABEL_WEIGHT * hidden.sum(axis=1) + 0.1 * (dense[:, 0] - 0.8)
        clicks = rng.random(self.batch_size) < 1.0 / (1.0 + np.exp(-logits))
        return clicks.astype(np.float32)[:, None]


class CriteoStream(ClickStream):
    """A Criteo-like stream.

    Ranks are drawn from each feature's Zipf law, so that the long tails keep bringing ids never seen
    before.

    Example:
    ```python
    stream = CriteoStream(batch_size=2048, seed=7)
    ids, dense, labels = stream.batch(1000)      # no need to draw batches 0..999 first
    ```

    Args:
      batch_size: samples per batch.
      seed: streams of equal seed and batch size are equal.
    """

    _laws = tuple(Zipf(n, a) for n, a in zip(CARDINALITIES, EXPONENTS))

    def popular_ids(self, count: int) -> np.ndarray:
        """As in `ClickStream`."""
        if not 0 <= count <= sum(CARDINALITIES):
            raise ValueError(
                f"Invalid count of ids. Received: {count}. Expected: 0 to {sum(CARDINALITIES)}."
            )
        low, high = -60.0, 0.0  # natural logarithm of the probability at the cut
        for _ in range(60):
            middle = (low + high) / 2
            enough = sum(law.count_above(np.exp(middle)) for law in self._laws) >= count
            low, high = (middle, high) if enough else (low, middle)
        ids, probabilities = [], []
        for feature, law in enumerate(self._laws, start=1):
            ranks = np.arange(1, law.count_above(np.exp(low)) + 1)
            ids.append(feature_id(feature, ranks))
            probabilities.append(law.probabilities(ranks))
        order = np.argsort(-np.concatenate(probabilities), kind="stable")
        return np.concatenate(ids)[order[:count]]

    def _draw_ids(self, rng: np.random.Generator) -> np.ndarray:
        uniforms = rng.random((NUM_CATEGORICAL, self.batch_size))
        ids = [feature_id(f + 1, law.ranks(uniforms[f])) for f, law in enumerate(self._laws)]
        return np.stack(ids, axis=1)
