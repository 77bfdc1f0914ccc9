# SPDX-License-Identifier: Apache-2.0
"""Changes directories of checkpoints while nobody trains: garbage collection, compaction."""

from adaptcp_tf._src.maintenance.collecting import GarbageReport, collect_garbage
from adaptcp_tf._src.maintenance.compacting import CompactReport, compact

__all__ = ["CompactReport", "GarbageReport", "collect_garbage", "compact"]
