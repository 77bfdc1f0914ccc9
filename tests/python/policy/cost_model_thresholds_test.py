# SPDX-License-Identifier: Apache-2.0
"""Thresholds: against a table, exact arithmetic, the costs and simulation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adaptcp_tf import cost_model
from tests.python.policy.cost_model_inputs import excess, quick, ratios, schedules, shares

# Computed independently of this code and rounded to three digits.
REFERENCE = {
    5: {0.1: 0.953, 1: 0.679, 10: 0.192, 100: 0.024},
    10: {0.1: 0.953, 1: 0.676, 10: 0.195, 100: 0.026},
    50: {0.1: 0.952, 1: 0.669, 10: 0.179, 100: 0.026},
    100: {0.1: 0.952, 1: 0.668, 10: 0.173, 100: 0.025},
}
# Spans the rows that are almost never touched and those that almost always are.
RATES = np.concatenate([np.logspace(-9, -1, 200), np.linspace(0.1, 0.999999, 400)])


def exact_excess(rate, checkpoints, rho):
    """C_D - C_I by the closed form, in rational numbers."""
    rate, rho = Fraction(rate), Fraction(rho)
    untouched = 1 - rate
    copies = checkpoints - untouched * (1 - untouched**checkpoints) / rate
    differential = (1 + rho / checkpoints) * copies
    return differential - rate * (checkpoints + rho * Fraction(checkpoints + 1, 2))


def assert_changes_sign_once_at(threshold, differences):
    clear = np.abs(RATES - threshold) > 1e-6 * threshold
    assert np.array_equal(differences[clear] < 0, RATES[clear] > threshold)


@pytest.mark.parametrize("checkpoints", REFERENCE)
def test_threshold_matches_the_reference_table(checkpoints):
    for rho, printed in REFERENCE[checkpoints].items():
        assert cost_model.threshold(checkpoints, rho) == pytest.approx(printed, abs=0.0005001)


@pytest.mark.parametrize("stale_skip", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("rho", [0.01, 0.1, 1.0, 10.0, 100.0, 1e4])
@pytest.mark.parametrize("checkpoints", [2, 3, 10, 100])
def test_difference_of_the_costs_changes_sign_once(checkpoints, rho, stale_skip):
    threshold = cost_model.threshold(checkpoints, rho, stale_skip=stale_skip)
    assert_changes_sign_once_at(threshold, excess(RATES, checkpoints, rho, stale_skip))


@quick
@given(schedule=schedules(), rho=ratios, stale_skip=st.floats(0.0, 0.99))
def test_difference_changes_sign_once_for_any_weights_and_failures(schedule, rho, stale_skip):
    weights, positions = schedule
    threshold = cost_model.threshold(
        len(weights),
        rho,
        stale_skip=stale_skip,
        write_weights=weights,
        failure_distribution=positions,
    )
    differences = excess(RATES, len(weights), rho, stale_skip, weights, positions)
    # Rounding hides the sign where the two costs agree to the last digits.
    clear = np.abs(differences) > 1e-10 * np.maximum(1.0, max(weights) + rho) * RATES
    above = threshold < RATES
    assert np.array_equal(differences[clear] < 0, above[clear])


@quick
@given(checkpoints=st.integers(2, 40), rho=st.floats(1e-3, 1e6))
def test_threshold_is_exact_to_twelve_digits(checkpoints, rho):
    threshold = cost_model.threshold(checkpoints, rho)
    error = Fraction(1, 10**12) * Fraction(threshold)
    assert exact_excess(Fraction(threshold) - error, checkpoints, rho) > 0
    assert exact_excess(Fraction(threshold) + error, checkpoints, rho) < 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rho", [1e-300, 1e-15, 1e15, 1e300])
def test_threshold_stays_inside_for_extreme_ratios(rho):
    assert 0 < cost_model.threshold(100, rho) < 1


def test_threshold_of_two_checkpoints_is_the_solution_by_hand():
    # D / p = q - rho p / 2 is zero at p = 2 / (2 + rho).
    assert cost_model.threshold(2, 6.0) == pytest.approx(0.25, abs=1e-15)


@quick
@given(checkpoints=st.integers(2, 50), rho=ratios, stale_skip=st.floats(0.0, 0.99))
def test_skipping_stale_copies_acts_like_cheaper_reads(checkpoints, rho, stale_skip):
    skipping = cost_model.threshold(checkpoints, rho, stale_skip=stale_skip)
    assert skipping == pytest.approx(cost_model.threshold(checkpoints, rho * (1 - stale_skip)))


@pytest.mark.parametrize(
    "arguments, winner, reason",
    [
        ({"checkpoints": 1, "rho": 1.0}, "incremental", "cost the same"),
        ({"checkpoints": 10, "rho": 0.0}, "incremental", "Reading costs nothing"),
        ({"checkpoints": 10, "rho": math.inf}, "differential", "Writing costs nothing"),
        ({"checkpoints": 10, "rho": 5.0, "stale_skip": 1.0}, "incremental", "skips every stale"),
        ({"checkpoints": 10, "rho": math.inf, "stale_skip": 1.0}, "incremental", "skips every"),
        (
            {"checkpoints": 3, "rho": 5.0, "write_weights": [1, 0, 0]},
            "differential",
            "after the first checkpoint",
        ),
        (
            {"checkpoints": 3, "rho": 5.0, "failure_distribution": [1, 0, 0]},
            "incremental",
            "Every failure falls after the first",
        ),
    ],
)
def test_without_a_threshold_the_winner_and_the_reason_are_told(arguments, winner, reason):
    solution = cost_model.solve_threshold(**arguments)
    assert solution.value is None
    assert cost_model.threshold(**arguments) is None
    assert solution.winner == winner
    assert reason in solution.reason


def test_solution_is_given_as_the_threshold_of_a_policy():
    assert cost_model.solve_threshold(10, 0.0).hot_threshold > 1
    assert cost_model.solve_threshold(10, math.inf).hot_threshold == 0
    both = cost_model.solve_threshold(10, 1.0)
    assert both.winner == "both"
    assert both.hot_threshold == both.value == cost_model.threshold(10, 1.0)


# Bursty rows


@quick
@given(rate=st.floats(1e-3, 1.0), schedule=schedules(), rho=ratios, stale_skip=shares)
def test_bursty_rule_is_the_threshold_when_updates_are_independent(rate, schedule, rho, stale_skip):
    weights, positions = schedule
    arguments = {
        "stale_skip": stale_skip,
        "write_weights": weights,
        "failure_distribution": positions,
    }
    solution = cost_model.solve_threshold(len(weights), rho, **arguments)
    assume(abs(rate - solution.hot_threshold) > 1e-6)
    touched_within = -np.expm1(np.arange(1, len(weights) + 1) * np.log1p(-min(rate, 1 - 1e-12)))
    # Where nearly nothing is at stake rounding decides.
    difference = excess(rate, len(weights), rho, stale_skip, weights, positions)
    assume(abs(difference) > 1e-8 * (max(weights) + rho))
    pays = cost_model.differential_pays(touched_within, rho, **arguments)
    assert pays == (rate >= solution.hot_threshold)


def test_bursts_make_differential_pay_below_the_threshold():
    rate, checkpoints, rho = 0.3, 10, 2.0
    assert rate < cost_model.threshold(checkpoints, rho)
    independent = 1 - (1 - rate) ** np.arange(1, checkpoints + 1)
    all_in_one_burst = np.full(checkpoints, rate)
    assert not cost_model.differential_pays(independent, rho)
    assert cost_model.differential_pays(all_in_one_burst, rho)


def test_bursty_rule_agrees_with_a_simulation_of_bursts():
    generator = np.random.default_rng(11)
    periods, checkpoints, rho = 20_000, 8, 2.0
    # Bursts that last: each interval repeats the one before with probability 0.9.
    touched = np.empty((periods, checkpoints), dtype=bool)
    touched[:, 0] = generator.random(periods) < 0.4
    for k in range(1, checkpoints):
        fresh = generator.random(periods) < 0.4
        repeats = generator.random(periods) < 0.9
        touched[:, k] = np.where(repeats, touched[:, k - 1], fresh)
    in_differential = np.logical_or.accumulate(touched, axis=1)
    increments_read = touched.cumsum(axis=1).mean()
    incremental = touched.sum(axis=1).mean() + rho * increments_read
    differential = in_differential.sum(axis=1).mean() + rho * in_differential.mean()
    assert differential < incremental
    assert cost_model.differential_pays(in_differential.mean(axis=0), rho)
    assert cost_model.threshold(checkpoints, rho) > 0.4
