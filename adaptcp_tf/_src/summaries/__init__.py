# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in TensorBoard."""

from adaptcp_tf._src.summaries.log import SummaryLog

__all__ = ["SummaryLog"]
