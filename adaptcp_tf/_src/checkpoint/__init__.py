# SPDX-License-Identifier: Apache-2.0
"""One lifecycle for every user: begin, drain, commit, restore."""

from adaptcp_tf._src.checkpoint.manager import CheckpointManager
from adaptcp_tf._src.checkpoint.options import CheckpointOptions

__all__ = ["CheckpointManager", "CheckpointOptions"]
