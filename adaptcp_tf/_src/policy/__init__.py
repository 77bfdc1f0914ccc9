# SPDX-License-Identifier: Apache-2.0
"""What to save: one small object a strategy."""

from adaptcp_tf._src.policy.strategies import (
    STRATEGIES,
    Adaptive,
    CutReport,
    Decision,
    Differential,
    Full,
    Incremental,
    Policy,
    make_policy,
)

__all__ = [
    "STRATEGIES",
    "Adaptive",
    "CutReport",
    "Decision",
    "Differential",
    "Full",
    "Incremental",
    "Policy",
    "make_policy",
]
