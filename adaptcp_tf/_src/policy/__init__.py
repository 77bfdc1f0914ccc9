# SPDX-License-Identifier: Apache-2.0
"""What to save: one small object a strategy."""

from adaptcp_tf._src.policy.adaptive import Adaptive
from adaptcp_tf._src.policy.check_n_run import CheckNRun, StopAndCopy, bits_for_restores
from adaptcp_tf._src.policy.counting import Differential, Full, Incremental, IncrementalN
from adaptcp_tf._src.policy.rates import RateHistogram
from adaptcp_tf._src.policy.reports import CutReport, Decision, Policy, RestoreSample
from adaptcp_tf._src.policy.strategies import STRATEGIES, make_policy

__all__ = [
    "STRATEGIES",
    "Adaptive",
    "CheckNRun",
    "CutReport",
    "Decision",
    "Differential",
    "Full",
    "Incremental",
    "IncrementalN",
    "Policy",
    "RateHistogram",
    "RestoreSample",
    "StopAndCopy",
    "bits_for_restores",
    "make_policy",
]
