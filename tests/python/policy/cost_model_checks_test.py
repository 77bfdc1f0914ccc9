# SPDX-License-Identifier: Apache-2.0
"""Cost model: mistakes of the caller are refused, and the examples hold."""

import doctest
import math

import pytest

from adaptcp_tf import cost_model, errors
from adaptcp_tf._src.policy.cost_model import intervals, populations, row_costs, thresholds


@pytest.mark.parametrize(
    "function, arguments, name",
    [
        ("threshold", (0, 1.0), "checkpoints"),
        ("threshold", (2.5, 1.0), "checkpoints"),
        ("threshold", (10, -1.0), "rho"),
        ("threshold", (10, math.nan), "rho"),
        ("incremental_cost", (1.5, 10, 1.0, 1.0), "rate"),
        ("incremental_cost", (math.nan, 10, 1.0, 1.0), "rate"),
        ("differential_cost", ([0.1, -0.1], 10, 1.0, 1.0), "rate"),
        ("differential_cost", (0.5, 10, -1.0, 1.0), "write_cost"),
        ("differential_cost", (0.5, 10, 1.0, math.inf), "read_cost"),
        ("differential_pays", ([], 1.0), "touched_within"),
        ("differential_pays", ([0.5, 0.4], 1.0), "touched_within"),
        ("differential_pays", ([0.5, 1.4], 1.0), "touched_within"),
        ("rho_of_row_size", (1.0, 0), "row_bytes"),
        ("measured_rho", (10, 0.0, 1.0, 1.0, 1.0), "interval_secs"),
        ("measured_rho", (10, 1.0, 0.0, 1.0, 1.0), "mean_secs_between_failures"),
        ("measured_rho", (10, 1.0, 1.0, 0.0, 0.0), "training_secs_lost_per_byte"),
        ("base_period", (1.0, 1.0, 1.0, 1.0, 0.0), "cold_rows_per_interval"),
        ("checkpoint_interval", (0.0, 0.0, 1.0), "fixed_secs"),
        ("checkpoint_interval", (1.0, 1.0, math.inf), "mean_secs_between_failures"),
        ("hybrid_cost", ([0.1], [1, 2], 0.5, 10, 1.0, 1.0), "counts"),
        ("hybrid_cost", ([0.1], [1], None, 10, 1.0, 1.0), "threshold"),
        ("expected_write_rows", ([0.1], [-1], 0.5, 1), "counts"),
        ("expected_read_rows", ([0.1], [1], 0.5, 0), "checkpoint"),
    ],
)
def test_argument_out_of_range_is_refused_by_name(function, arguments, name):
    message = f"Invalid value for {name}. Received: .* Expected: "
    with pytest.raises(errors.InvalidOptionError, match=message):
        getattr(cost_model, function)(*arguments)


@pytest.mark.parametrize(
    "changes",
    [
        {"stale_skip": 1.1},
        {"stale_skip": math.nan},
        {"write_weights": [1.0, 1.0]},
        {"write_weights": [1.0, -1.0, 1.0]},
        {"write_weights": [1.0, math.inf, 1.0]},
        {"failure_distribution": [0.5, 0.5]},
        {"failure_distribution": [0.5, 0.5, 0.5]},
    ],
)
def test_option_out_of_range_is_refused_by_every_function_that_takes_it(changes):
    calls = [
        lambda: cost_model.threshold(3, 1.0, **changes),
        lambda: cost_model.incremental_cost(0.5, 3, 1.0, 1.0, **changes),
        lambda: cost_model.differential_pays([0.5, 0.6, 0.7], 1.0, **changes),
        lambda: cost_model.hybrid_cost([0.5], [1], 0.5, 3, 1.0, 1.0, **changes),
    ]
    for call in calls:
        with pytest.raises(
            errors.InvalidOptionError, match=f"Invalid value for {next(iter(changes))}"
        ):
            call()


@pytest.mark.parametrize("module", [intervals, populations, row_costs, thresholds])
def test_examples_in_the_documentation_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
