# SPDX-License-Identifier: Apache-2.0
"""Pictures; needs matplotlib, which the package does not."""

from adaptcp_tf._src.plotting.history import draw_history

__all__ = ["draw_history"]
