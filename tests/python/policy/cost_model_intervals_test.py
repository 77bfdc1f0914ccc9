# SPDX-License-Identifier: Apache-2.0
"""Ratios by hand, and base period and interval against the loss that they minimise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptcp_tf import cost_model
from tests.python.policy.cost_model_inputs import quick, shares

# Ratios from measurements


def test_ratio_does_not_depend_on_the_size_of_rows_without_overhead():
    assert cost_model.rho_of_row_size(3.0, 8) == cost_model.rho_of_row_size(3.0, 4096) == 3.0


def test_overhead_of_reading_lowers_the_threshold_of_small_rows():
    small, large = (
        cost_model.threshold(10, cost_model.rho_of_row_size(1.0, size, read_overhead_bytes=64))
        for size in (16, 1024)
    )
    assert small < large < cost_model.threshold(10, 1.0)


def test_ratio_of_a_size_is_the_ratio_of_the_costs_of_a_row():
    write_per_byte, read_per_byte = 2.0, 5.0
    rho = cost_model.rho_of_row_size(
        read_per_byte / write_per_byte, 40, write_overhead_bytes=10, read_overhead_bytes=24
    )
    assert rho == pytest.approx(read_per_byte * 64 / (write_per_byte * 50))


def test_measured_ratio_counts_the_failures_of_a_base_period():
    assert cost_model.measured_rho(20, 300.0, 12_000.0, 4e-9, 1e-9) == pytest.approx(0.5 * 4)


def test_measured_ratio_leads_to_always_differential_when_writes_are_hidden():
    rho = cost_model.measured_rho(10, 300.0, 12_000.0, 4e-9, 0.0)
    assert cost_model.solve_threshold(10, rho).winner == "differential"


def test_measured_ratio_leads_to_always_incremental_without_failures():
    rho = cost_model.measured_rho(10, 300.0, math.inf, 4e-9, 1e-9)
    assert cost_model.solve_threshold(10, rho).winner == "incremental"


# Base period and interval


@pytest.mark.parametrize("base_secs", [1.0, 60.0, 900.0])
@pytest.mark.parametrize("cold_rows", [1e4, 1e6])
def test_base_period_minimises_the_share_of_time_lost(base_secs, cold_rows):
    failures, per_row, interval = 40_000.0, 2e-6, 300.0
    periods = np.arange(1, 20_001)
    # Restores after each checkpoint of the period, written out as a mean of running sums.
    increments_read = np.cumsum(periods) / periods
    lost = base_secs / (periods * interval) + per_row * cold_rows * increments_read / failures
    best = periods[np.argmin(lost)]
    period = cost_model.base_period(base_secs, failures, per_row, interval, cold_rows)
    assert abs(period - best) < 1


@pytest.mark.parametrize("growth", [0.0, 0.5, 0.75, 0.95, 1.0])
@pytest.mark.parametrize("fixed_secs, secs_at_one_second", [(0.5, 0.02), (30.0, 0.0), (5.0, 0.4)])
def test_checkpoint_interval_minimises_the_share_of_time_lost(
    fixed_secs, secs_at_one_second, growth
):
    failures = 20_000.0
    interval = cost_model.checkpoint_interval(
        fixed_secs, secs_at_one_second, failures, growth=growth
    )

    def lost(secs):
        return (fixed_secs + secs_at_one_second * secs**growth) / secs + secs / (2 * failures)

    grid = np.geomspace(1.0, 1e6, 200_001)
    assert interval == pytest.approx(grid[np.argmin(lost(grid))], rel=1e-3)
    assert lost(interval) <= lost(grid).min()


@quick
@given(
    fixed_secs=st.floats(1e-3, 1e3),
    secs_at_one_second=st.floats(0.0, 10.0),
    failures=st.floats(1e2, 1e7),
    growth=shares,
)
def test_checkpoint_interval_solves_its_equation(fixed_secs, secs_at_one_second, failures, growth):
    interval = cost_model.checkpoint_interval(
        fixed_secs, secs_at_one_second, failures, growth=growth
    )
    cost = fixed_secs + secs_at_one_second * (1 - growth) * interval**growth
    assert interval**2 / (2 * failures) == pytest.approx(cost, rel=1e-12, abs=0.0)


def test_checkpoint_interval_without_rows_is_youngs():
    assert cost_model.checkpoint_interval(8.0, 0.0, 3600.0) == pytest.approx(
        math.sqrt(2 * 8 * 3600)
    )


def test_checkpoint_interval_needs_no_fixed_cost():
    interval = cost_model.checkpoint_interval(0.0, 1.0, 3600.0, growth=0.5)
    assert interval == pytest.approx((3600.0) ** (2 / 3))
