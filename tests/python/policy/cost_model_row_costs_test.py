# SPDX-License-Identifier: Apache-2.0
"""Costs of a row: closed forms against sums and simulation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptcp_tf import cost_model
from tests.python.policy.cost_model_inputs import excess, quick, rates, ratios, schedules, shares


@quick
@given(rate=rates, checkpoints=st.integers(1, 60), rho=ratios)
def test_costs_equal_the_closed_forms_in_exact_arithmetic(rate, checkpoints, rho):
    untouched = 1 - Fraction(rate)
    copies = checkpoints - untouched * (1 - untouched**checkpoints) / Fraction(rate)
    differential = (1 + Fraction(rho) / checkpoints) * copies
    incremental = Fraction(rate) * (checkpoints + Fraction(rho) * Fraction(checkpoints + 1, 2))
    assert cost_model.differential_cost(rate, checkpoints, 1.0, rho) == pytest.approx(
        float(differential), rel=1e-12, abs=0.0
    )
    assert cost_model.incremental_cost(rate, checkpoints, 1.0, rho) == pytest.approx(
        float(incremental), rel=1e-12, abs=0.0
    )


@quick
@given(rate=rates, schedule=schedules(), stale_skip=shares)
def test_costs_equal_the_sum_over_checkpoints(rate, schedule, stale_skip):
    weights, positions = schedule
    arguments = {"write_weights": weights, "failure_distribution": positions}
    differential = incremental = Fraction(0)
    for k, (weight, position) in enumerate(zip(weights, positions), 1):
        weight, position, skip = Fraction(weight), Fraction(position), Fraction(stale_skip)
        touched = 1 - (1 - Fraction(rate)) ** k
        copies = k * Fraction(rate)
        differential += 3 * weight * touched + 7 * position * touched
        incremental += 3 * weight * Fraction(rate)
        incremental += 7 * position * ((1 - skip) * copies + skip * touched)
    count = len(weights)
    assert cost_model.differential_cost(rate, count, 3.0, 7.0, **arguments) == pytest.approx(
        float(differential), rel=1e-12, abs=0.0
    )
    assert cost_model.incremental_cost(
        rate, count, 3.0, 7.0, stale_skip=stale_skip, **arguments
    ) == pytest.approx(float(incremental), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("stale_skip", [0.0, 0.3, 1.0])
def test_row_that_is_never_touched_costs_nothing(stale_skip):
    assert cost_model.incremental_cost(0.0, 10, 1.0, 2.0, stale_skip=stale_skip) == 0.0
    assert cost_model.differential_cost(0.0, 10, 1.0, 2.0) == 0.0


@pytest.mark.parametrize("stale_skip", [0.0, 0.3, 1.0])
def test_advantage_of_differential_for_a_row_always_touched_scales_with_what_is_not_skipped(
    stale_skip,
):
    checkpoints, rho = 10, 3.0
    expected = -rho * (1 - stale_skip) * (checkpoints - 1) / 2
    assert excess(1.0, checkpoints, rho, stale_skip) == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
def test_array_of_rates_gives_the_costs_of_its_elements():
    several = np.array([[0.0, 1e-12, 0.3], [0.5, 0.9, 1.0]])
    for cost in (cost_model.incremental_cost, cost_model.differential_cost):
        costs = cost(several, 10, 1.0, 2.0)
        assert costs.shape == several.shape
        assert costs.ravel().tolist() == [cost(rate, 10, 1.0, 2.0) for rate in several.ravel()]
        assert type(cost(0.5, 10, 1.0, 2.0)) is float


def test_differential_cost_keeps_its_digits_for_tiny_rates():
    rate, checkpoints = 1e-12, 10
    # S_N = p N (N + 1) / 2 - p^2 (N + 1) N (N - 1) / 6 + ...
    expected = rate * 55 - rate**2 * 165
    received = cost_model.differential_cost(rate, checkpoints, 1.0, 0.0)
    assert received == pytest.approx(expected, rel=1e-14, abs=0.0)


@pytest.mark.parametrize("updates", [1e-6, 0.1, 0.499, 0.501, 0.9, 4.0])
@pytest.mark.parametrize("checkpoints", [1, 2, 17, 2000])
def test_differential_cost_is_exact_for_seldom_and_for_frequent_updates(checkpoints, updates):
    rate = min(1.0, updates / checkpoints)
    untouched = 1 - Fraction(rate)
    copies = checkpoints - untouched * (1 - untouched**checkpoints) / Fraction(rate)
    received = cost_model.differential_cost(rate, checkpoints, 1.0, 0.0)
    assert received == pytest.approx(float(copies), rel=1e-14, abs=0.0)


def simulate(rate, checkpoints, stale_skip, periods, seed):
    """Copies written and read in each of many base periods, one failure in each."""
    generator = np.random.default_rng(seed)
    touched = generator.random((periods, checkpoints)) < rate
    failed_after = generator.integers(1, checkpoints + 1, periods)
    in_differential = np.logical_or.accumulate(touched, axis=1)
    before = np.arange(1, checkpoints + 1) <= failed_after[:, None]
    copies = (touched & before).sum(axis=1)
    newest = np.minimum(copies, 1)
    stale_read = generator.binomial(copies - newest, 1 - stale_skip)
    return {
        "incremental": (touched.sum(axis=1), newest + stale_read),
        "differential": (
            in_differential.sum(axis=1),
            in_differential[np.arange(periods), failed_after - 1],
        ),
    }


@pytest.mark.parametrize("stale_skip", [0.0, 0.6])
@pytest.mark.parametrize("checkpoints", [3, 12])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_costs_agree_with_a_simulation_of_the_row(rate, checkpoints, stale_skip):
    simulated = simulate(rate, checkpoints, stale_skip, periods=40_000, seed=7)
    for write_cost, read_cost in ((1.0, 0.0), (0.0, 1.0), (2.0, 5.0)):
        expected = {
            "incremental": cost_model.incremental_cost(
                rate, checkpoints, write_cost, read_cost, stale_skip=stale_skip
            ),
            "differential": cost_model.differential_cost(rate, checkpoints, write_cost, read_cost),
        }
        for scheme, (written, read) in simulated.items():
            costs = write_cost * written + read_cost * read
            standard_error = costs.std() / math.sqrt(len(costs))
            assert abs(costs.mean() - expected[scheme]) <= 4 * standard_error, scheme
