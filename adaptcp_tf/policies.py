# SPDX-License-Identifier: Apache-2.0
"""The strategies as objects, and what a policy of your own is told and decides."""

from adaptcp_tf._src.policy import (
    Adaptive,
    CheckNRun,
    CutReport,
    Decision,
    Differential,
    Full,
    Incremental,
    IncrementalN,
    Policy,
    RateHistogram,
    RestoreSample,
    StopAndCopy,
    bits_for_restores,
)

__all__ = [
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
]
