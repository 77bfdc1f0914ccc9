# SPDX-License-Identifier: Apache-2.0
"""A click stream over a table of fixed size, of whose rows each interval updates a good part."""

from __future__ import annotations

import numpy as np

from .criteo_stream import NUM_CATEGORICAL, ClickStream, Zipf, feature_id

# At batch 2048, 100 batches update 10 to 25 % of four million rows, as intervals do in production.
_EXPONENT = 1.05


class ProductionStream(ClickStream):
    """Ids of one Zipf law over all rows, dealt out to the features; there are no new ids.

    Args:
      rows: how many ids there are.
      batch_size: samples per batch.
      seed: streams of equal rows, seed and batch size are equal.
    """

    def __init__(self, rows: int, batch_size: int = 2048, seed: int = 0):
        super().__init__(batch_size, seed)
        self._rows = rows
        self._law = Zipf(rows, _EXPONENT)

    def popular_ids(self, count: int) -> np.ndarray:
        """As in `ClickStream`."""
        if not 0 <= count <= self._rows:
            raise ValueError(
                f"Invalid count of ids. Received: {count}. Expected: 0 to {self._rows}."
            )
        return _ids(np.arange(1, count + 1))

    def _draw_ids(self, rng: np.random.Generator) -> np.ndarray:
        return _ids(self._law.ranks(rng.random((self.batch_size, NUM_CATEGORICAL))))


def _ids(ranks: np.ndarray) -> np.ndarray:
    features = (ranks % NUM_CATEGORICAL + 1).astype(np.uint64)
    return feature_id(features, ranks)
