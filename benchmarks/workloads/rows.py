# SPDX-License-Identifier: Apache-2.0
"""Rows for tables that are filled before something is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def spread_keys(count: int) -> np.ndarray:
    """Distinct keys all over the positive int64, as hashed ids are."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed & np.uint64((1 << 63) - 1)).astype(np.int64)


def fill_tables(
    group: Sequence[Any], keys: np.ndarray, *, seed: int, rows_per_call: int = 200_000
) -> None:
    """Gives a TFRA variable and its slot variables rows with these keys.

    All tables get some rows before any gets the next ones, as they do while a model trains.

    Args:
      group: the variables, the parameter first.
      keys: [n] int64.
      seed: of the values.
      rows_per_call: of one insert.
    """
    streams = [np.random.default_rng((seed, place)) for place in range(len(group))]
    for at in range(0, len(keys), rows_per_call):
        some = keys[at : at + rows_per_call]
        for variable, rng in zip(group, streams):
            # Small and not negative, as the second moments of Adam must be.
            values = rng.random((len(some), variable.dim), dtype=np.float32) * np.float32(1e-3)
            variable.upsert(tf.constant(some), tf.constant(values))
