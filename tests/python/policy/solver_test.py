# SPDX-License-Identifier: Apache-2.0
"""The solver's choices: the least expected loss, by brute force and in the cases known by hand."""

import dataclasses
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptcp_tf import cost_model
from adaptcp_tf._src.policy.rates import RateHistogram
from adaptcp_tf._src.policy.solver import ALL_COLD, ALL_HOT, CostInputs, solve

DAY = 86400.0
# A row costs 1 microsecond to write and 10 to read; a checkpoint every 10 s.
INPUTS = CostInputs(
    write_secs_per_row=1e-6,
    read_secs_per_row=1e-5,
    interval_secs=10.0,
    mean_secs_between_failures=3600.0,
)
# A tenth of the rows is updated in nearly every interval.
MIXED = RateHistogram(rows=np.array([1e5, 9e5]), rates=np.array([0.95, 0.01]))


def loss(inputs, rates, period, threshold):
    """Seconds lost per interval, row by row of the histogram."""
    total = inputs.base_secs_per_row * rates.rows.sum()
    read_cost = inputs.read_secs_per_row * inputs.restores_per_base(period)
    for rows, rate in zip(rates.rows, rates.rates):
        costs = (period, inputs.write_secs_per_row, read_cost)
        if rate >= threshold:
            total += rows * cost_model.differential_cost(rate, *costs)
        else:
            total += rows * cost_model.incremental_cost(rate, *costs, stale_skip=inputs.stale_skip)
    return total / period


def test_threshold_is_that_of_the_cost_model():
    solution = solve(INPUTS, MIXED, base_period=50)
    assert solution.base_period == 50
    assert solution.rho == pytest.approx(50 * 10 / 3600 * 10)
    assert solution.hot_threshold == pytest.approx(cost_model.threshold(50, solution.rho))
    assert solution.reason == "Both classes are cheaper than one."


@settings(max_examples=60)
@given(
    st.floats(1e-8, 1e-4),
    st.floats(1e-8, 1e-4),
    st.floats(1, 1000),
    st.floats(600, 7 * DAY),
    st.floats(1e-8, 1e-4),
    st.floats(0, 0.9),
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-4, 1)), min_size=1, max_size=8),
)
def test_no_other_choice_loses_less(write, read, interval, between_failures, base, skip, bins):
    inputs = CostInputs(write, read, interval, between_failures, base, skip)
    rates = RateHistogram(*np.array(bins).T)
    solution = solve(inputs, rates)
    chosen = loss(inputs, rates, solution.base_period, solution.hot_threshold)
    assert chosen == pytest.approx(solution.cost_secs / solution.base_period)
    for period in np.unique(np.geomspace(2, 2000, 30).astype(int)):
        for threshold in [ALL_HOT, ALL_COLD, *rates.rates]:
            # Up to 1 % is given away for having one class only, and 0.5 % to the grid of periods.
            assert chosen <= 1.016 * loss(inputs, rates, int(period), threshold)


def test_cold_rows_alone_get_the_base_period_of_the_closed_form():
    rates = RateHistogram(rows=np.array([1e6]), rates=np.array([0.001]))
    solution = solve(INPUTS, rates)
    assert solution.hot_threshold == ALL_COLD
    expected = cost_model.base_period(
        base_secs=1e6 * INPUTS.write_secs_per_row,
        mean_secs_between_failures=INPUTS.mean_secs_between_failures,
        restore_secs_per_row=INPUTS.read_secs_per_row,
        interval_secs=INPUTS.interval_secs,
        cold_rows_per_interval=1e3,
    )
    assert solution.base_period == pytest.approx(expected, rel=0.13)


def test_rows_updated_in_every_interval_are_all_hot():
    rates = RateHistogram(rows=np.array([1e5]), rates=np.array([1.0]))
    solution = solve(INPUTS, rates, base_period=20)
    assert solution.hot_threshold == ALL_HOT
    assert "Two classes would save less" in solution.reason


def test_two_classes_collapse_when_they_save_next_to_nothing():
    few_hot = RateHistogram(rows=np.array([100.0, 1e6]), rates=np.array([0.95, 0.01]))
    assert 0 < solve(INPUTS, MIXED, base_period=50).hot_threshold < 1
    assert solve(INPUTS, few_hot, base_period=50).hot_threshold == ALL_COLD


def test_bases_that_cost_more_are_taken_less_often():
    cold = RateHistogram(rows=np.array([1e6]), rates=np.array([0.001]))
    costly = dataclasses.replace(INPUTS, base_secs_per_row=16 * INPUTS.write_secs_per_row)
    assert solve(costly, cold).base_period == pytest.approx(
        4 * solve(INPUTS, cold).base_period, rel=0.13
    )


def test_restore_that_skips_all_stale_copies_wants_increments_only():
    inputs = dataclasses.replace(INPUTS, stale_skip=1.0)
    solution = solve(inputs, MIXED, base_period=50)
    assert solution.hot_threshold == ALL_COLD


def test_hidden_writes_lower_the_threshold():
    """The ideas are coupled: when writing costs less, more rows are worth rewriting."""
    cheaper = dataclasses.replace(INPUTS, write_secs_per_row=INPUTS.write_secs_per_row / 20)
    before = solve(INPUTS, MIXED, base_period=50).hot_threshold
    assert solve(cheaper, MIXED, base_period=50).hot_threshold < before


def test_no_rows_at_all_are_no_reason_to_fail():
    solution = solve(INPUTS, RateHistogram(np.zeros(64), np.zeros(64)))
    assert math.isfinite(solution.cost_secs)


def test_solving_takes_less_than_ten_milliseconds():
    """The work depends on the bins, of which there are 64, and not on the rows."""
    rates = RateHistogram(rows=np.full(64, 1e7 / 64), rates=np.geomspace(1, 1e-5, 64))
    seconds = []
    for _ in range(9):
        start = time.perf_counter()
        solve(INPUTS, rates)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.01
