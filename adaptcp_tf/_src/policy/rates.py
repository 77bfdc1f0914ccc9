# SPDX-License-Identifier: Apache-2.0
"""How the update rates of rows are distributed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np


@dataclasses.dataclass(frozen=True)
class RateHistogram:
    """Rows by update rate.

    Attributes:
        rows: [bins] float64, rows of each bin.
        rates: [bins] float64, the mean updates per interval, 0 to 1, of those rows.
    """

    rows: np.ndarray
    rates: np.ndarray

    @classmethod
    def of_sums(cls, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> RateHistogram:
        """Merges histograms of the same bins.

        Args:
            parts: per table group and shard the rows and the sums of their rates, [bins] each.
        """
        rows, sums = np.zeros(1), np.zeros(1)
        for part_rows, part_sums in parts:
            rows = rows + part_rows
            sums = sums + part_sums
        return cls(rows, np.divide(sums, rows, out=np.zeros_like(sums), where=rows > 0))
