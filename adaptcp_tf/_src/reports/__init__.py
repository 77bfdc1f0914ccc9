# SPDX-License-Identifier: Apache-2.0
"""Records of what checkpointing did, for people and for those who draw them."""

from adaptcp_tf._src.reports.save_report import SaveReport
from adaptcp_tf._src.reports.storage_stats import StorageStats

__all__ = ["SaveReport", "StorageStats"]
