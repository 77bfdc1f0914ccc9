# SPDX-License-Identifier: Apache-2.0
"""Populations: against the costs of their rows, other thresholds and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptcp_tf import cost_model
from tests.python.policy.cost_model_inputs import quick, ratios, schedules, shares

BINS = np.array([0.0, 1e-4, 0.01, 0.2, 0.5, 0.8, 1.0])
ROWS = np.array([1e6, 1e5, 1e4, 3000.0, 500.0, 200.0, 100.0])


@pytest.mark.parametrize("threshold, scheme", [(0, "differential"), (2.0, "incremental")])
def test_extreme_thresholds_cost_what_one_scheme_costs(threshold, scheme):
    cost_of_row = getattr(cost_model, f"{scheme}_cost")
    hybrid = cost_model.hybrid_cost(BINS, ROWS, threshold, 10, 1.5, 4.0)
    assert hybrid.write == pytest.approx(ROWS @ cost_of_row(BINS, 10, 1.5, 0.0))
    assert hybrid.read == pytest.approx(ROWS @ cost_of_row(BINS, 10, 0.0, 4.0))
    assert hybrid.total == pytest.approx(ROWS @ cost_of_row(BINS, 10, 1.5, 4.0))


def test_row_at_the_threshold_is_hot():
    assert cost_model.expected_write_rows([0.5], [8], 0.5, 1) == cost_model.ClassRows(4.0, 0.0)


@quick
@given(checkpoints=st.integers(1, 30), rho=ratios, stale_skip=shares, other=st.floats(0.0, 2.0))
def test_no_threshold_beats_the_solution(checkpoints, rho, stale_skip, other):
    def total(threshold):
        return cost_model.hybrid_cost(
            BINS, ROWS, threshold, checkpoints, 1.0, rho, stale_skip=stale_skip
        ).total

    solution = cost_model.solve_threshold(checkpoints, rho, stale_skip=stale_skip)
    assert total(solution.hot_threshold) <= total(other) * (1 + 1e-12)


@quick
@given(schedule=schedules(), stale_skip=shares, threshold=st.floats(0.0, 1.1))
def test_rows_of_the_checkpoints_add_up_to_the_cost_of_the_period(schedule, stale_skip, threshold):
    weights, positions = schedule
    write = read = 0.0
    for k, (weight, position) in enumerate(zip(weights, positions), 1):
        written = cost_model.expected_write_rows(BINS, ROWS, threshold, k)
        restored = cost_model.expected_read_rows(BINS, ROWS, threshold, k, stale_skip=stale_skip)
        write += weight * (written.hot + written.cold)
        read += position * (restored.hot + restored.cold)
    hybrid = cost_model.hybrid_cost(
        BINS,
        ROWS,
        threshold,
        len(weights),
        2.0,
        3.0,
        stale_skip=stale_skip,
        write_weights=weights,
        failure_distribution=positions,
    )
    assert hybrid.write == pytest.approx(2 * write)
    assert hybrid.read == pytest.approx(3 * read)


def test_expected_rows_agree_with_a_simulation_of_a_population():
    generator = np.random.default_rng(3)
    rows_per_bin, checkpoints, threshold = 20_000, 6, 0.4
    bins = [0.05, 0.6]
    touched = [generator.random((rows_per_bin, checkpoints)) < rate for rate in bins]
    written = cost_model.expected_write_rows(bins, [rows_per_bin] * 2, threshold, checkpoints)
    restored = cost_model.expected_read_rows(bins, [rows_per_bin] * 2, threshold, checkpoints)
    tolerance = 4 * math.sqrt(rows_per_bin)
    in_last_increment, in_differential = touched[0][:, -1].sum(), touched[1].any(axis=1).sum()
    assert written.cold == pytest.approx(in_last_increment, abs=tolerance)
    assert written.hot == restored.hot == pytest.approx(in_differential, abs=tolerance)
    assert restored.cold == pytest.approx(touched[0].sum(), abs=tolerance)
