# SPDX-License-Identifier: Apache-2.0
"""What checkpoints cost, and the threshold, base period and interval that cost the least."""

from adaptcp_tf._src.policy.cost_model import (
    ClassRows,
    HybridCost,
    ThresholdSolution,
    base_period,
    checkpoint_interval,
    differential_cost,
    differential_pays,
    expected_read_rows,
    expected_write_rows,
    hybrid_cost,
    incremental_cost,
    measured_rho,
    rho_of_row_size,
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
