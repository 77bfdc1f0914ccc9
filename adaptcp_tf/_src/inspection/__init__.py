# SPDX-License-Identifier: Apache-2.0
"""Looks at checkpoints, without a model and without changing anything."""

from adaptcp_tf._src.inspection.comparing import GroupChange, compare
from adaptcp_tf._src.inspection.opening import buffered_directory, open_tiers, step_to_read
from adaptcp_tf._src.inspection.verifying import (
    Problem,
    VerifyReport,
    verify,
)

__all__ = [
    "GroupChange",
    "Problem",
    "VerifyReport",
    "buffered_directory",
    "compare",
    "open_tiers",
    "step_to_read",
    "verify",
]
