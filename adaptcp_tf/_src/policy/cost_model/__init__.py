# SPDX-License-Identifier: Apache-2.0
"""What a row costs as an incremental or a differential one, and the settings that follow."""

from adaptcp_tf._src.policy.cost_model.intervals import (
    base_period,
    checkpoint_interval,
    measured_rho,
    rho_of_row_size,
)
from adaptcp_tf._src.policy.cost_model.populations import (
    ClassRows,
    HybridCost,
    expected_read_rows,
    expected_write_rows,
    hybrid_cost,
)
from adaptcp_tf._src.policy.cost_model.row_costs import differential_cost, incremental_cost
from adaptcp_tf._src.policy.cost_model.thresholds import (
    ThresholdSolution,
    differential_pays,
    solve_threshold,
    threshold,
)

__all__ = [
    "ClassRows",
    "HybridCost",
    "ThresholdSolution",
    "base_period",
    "checkpoint_interval",
    "differential_cost",
    "differential_pays",
    "expected_read_rows",
    "expected_write_rows",
    "hybrid_cost",
    "incremental_cost",
    "measured_rho",
    "rho_of_row_size",
    "solve_threshold",
    "threshold",
]
