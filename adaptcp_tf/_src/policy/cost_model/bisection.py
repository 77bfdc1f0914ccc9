# SPDX-License-Identifier: Apache-2.0
"""Where a condition turns true."""

from __future__ import annotations

from collections.abc import Callable


def bisect(is_above: Callable[[float], bool], low: float, high: float) -> float:
    """Returns where `is_above` turns true, to the last bits of a float."""
    while True:
        middle = low + (high - low) / 2
        if middle in (low, high):
            return middle
        if is_above(middle):
            high = middle
        else:
            low = middle
