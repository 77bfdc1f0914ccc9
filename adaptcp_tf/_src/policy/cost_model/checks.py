# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments, and the arrays they become."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from adaptcp_tf import errors

ROUNDING = 1e-9


def schedule(
    checkpoints: int,
    write_weights: Sequence[float] | None,
    failure_distribution: Sequence[float] | None,
) -> tuple[np.ndarray, np.ndarray]:
    checkpoints = as_count("checkpoints", checkpoints)
    uniform = np.full(checkpoints, 1 / checkpoints)
    weights = np.ones(checkpoints)
    if write_weights is not None:
        weights = as_weights("write_weights", write_weights, checkpoints)
    if failure_distribution is None:
        return weights, uniform
    positions = as_weights("failure_distribution", failure_distribution, checkpoints)
    check(
        abs(positions.sum() - 1) <= ROUNDING,
        "failure_distribution",
        failure_distribution,
        "probabilities that sum to 1",
    )
    return weights, positions


def as_rates(name: str, value: ArrayLike) -> np.ndarray:
    rates = np.asarray(value, dtype=np.float64)
    check(bool(np.all((rates >= 0) & (rates <= 1))), name, value, "probabilities from 0 to 1")
    return rates


def as_weights(name: str, value: Sequence[float], length: int) -> np.ndarray:
    weights = np.asarray(value, dtype=np.float64)
    sound = weights.shape == (length,) and np.all((weights >= 0) & (weights < np.inf))
    check(bool(sound), name, value, f"{length} finite numbers, none negative")
    return weights


def as_count(name: str, value: int) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    check(count >= 1, name, value, "a whole number, at least 1")
    return count


def check_costs(write_cost: float, read_cost: float, stale_skip: float) -> None:
    check_not_negative("write_cost", write_cost)
    check_not_negative("read_cost", read_cost)
    check_share("stale_skip", stale_skip)


def check_positive(name: str, value: float) -> None:
    check(0 < value < math.inf, name, value, "a positive number")


def check_not_negative(name: str, value: float) -> None:
    check(0 <= value < math.inf, name, value, "a finite number, at least 0")


def check_share(name: str, value: float) -> None:
    check(0 <= value <= 1, name, value, "a share from 0 to 1")


def check(holds: bool, name: str, received: object, expected: str) -> None:
    if not holds:
        raise errors.InvalidOptionError(
            f"Invalid value for {name}. Received: {received!r}. Expected: {expected}."
        )
