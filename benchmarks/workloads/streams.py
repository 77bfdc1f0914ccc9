# SPDX-License-Identifier: Apache-2.0
"""Streams of updates for simulations: per interval, the rows that it updates."""

from __future__ import annotations

import numpy as np

from . import movielens
from .criteo_stream import FEATURE_SHIFT, CriteoStream

# Rows updated at independent rates, most of them rarely, as in the tables of a recommender.
_IID_ROWS = 20_000
_IID_POWER = 4
# An interval of the public evaluation of IncrCP: ten batches.
_BATCHES_PER_INTERVAL = 10
_CRITEO_BATCH = 256
# So few values of each feature that an interval updates 10 to 25 % of the rows, as in production.
_SHRUNKEN_VALUES = 8_000


def make(name: str, intervals: int, seed: int) -> list[np.ndarray]:
    """Draws a stream.

    Args:
        name: one of `NAMES`.
        intervals: how long it is.
        seed: streams of the same name and seed begin alike; "movielens" has none.

    Returns:
        Per interval the numbers, from 0, of the rows it updates, each once.
    """
    return _MAKERS[name](intervals, seed)


def _iid(intervals: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    rates = iid_rates(seed)
    return [np.flatnonzero(rng.random(_IID_ROWS) < rates) for _ in range(intervals)]


def iid_rates(seed: int) -> np.ndarray:
    """The update rate of each row of the stream "iid"."""
    return np.random.default_rng((seed, 1)).random(_IID_ROWS) ** _IID_POWER


def _drifting(intervals: int, seed: int) -> list[np.ndarray]:
    """Half-way other rows become the hot ones, and more of them."""
    rng = np.random.default_rng(seed)
    before = rng.random(_IID_ROWS) ** _IID_POWER
    after = rng.random(_IID_ROWS) ** (_IID_POWER / 2)
    return [
        np.flatnonzero(rng.random(_IID_ROWS) < (before if interval < intervals // 2 else after))
        for interval in range(intervals)
    ]


def _criteo(intervals: int, seed: int) -> list[np.ndarray]:
    return _numbered(_criteo_ids(intervals, seed))


def _criteo_shrunken(intervals: int, seed: int) -> list[np.ndarray]:
    return _numbered(
        np.unique((ids >> FEATURE_SHIFT) * _SHRUNKEN_VALUES + ids % _SHRUNKEN_VALUES)
        for ids in _criteo_ids(intervals, seed)
    )


def _criteo_ids(intervals: int, seed: int):
    stream = CriteoStream(_CRITEO_BATCH, seed)
    for interval in range(intervals):
        batches = stream.batches(interval * _BATCHES_PER_INTERVAL, _BATCHES_PER_INTERVAL)
        yield np.unique(batches.ids)


def _movielens(intervals: int, seed: int) -> list[np.ndarray]:
    """All ratings in time order, in as many parts of equal length; users and items are rows."""
    ratings = movielens.load()
    users, items = (np.asarray(column, np.int64) for column in (ratings.users, ratings.items))
    order = np.argsort(ratings.timestamps, kind="stable")
    ids = np.stack([users[order] * 2, items[order] * 2 + 1], axis=1)
    return _numbered(np.unique(part) for part in np.array_split(ids, intervals))


def _numbered(parts) -> list[np.ndarray]:
    """Gives ids numbers from 0."""
    parts = list(parts)
    _, numbers = np.unique(np.concatenate(parts), return_inverse=True)
    return np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])


_MAKERS = {
    "iid": _iid,
    "criteo": _criteo,
    "criteo_shrunken": _criteo_shrunken,
    "movielens": _movielens,
    "drifting": _drifting,
}
NAMES = tuple(_MAKERS)
