# SPDX-License-Identifier: Apache-2.0
"""What to save: one small object a strategy."""

from adaptcp_tf._src.policy.rates import RateHistogram
from adaptcp_tf._src.policy.reports import CutReport, Decision, Policy, RestoreSample
from adaptcp_tf._src.policy.strategies import (
    STRATEGIES,
    Adaptive,
    Differential,
    Full,
    Incremental,
    IncrementalN,
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
    "IncrementalN",
    "Policy",
    "RateHistogram",
    "RestoreSample",
    "make_policy",
]
