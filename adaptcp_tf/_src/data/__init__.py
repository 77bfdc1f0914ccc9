# SPDX-License-Identifier: Apache-2.0
"""Input pipelines that help to save checkpoints."""

from adaptcp_tf._src.data.prefetch import prefetch

__all__ = ["prefetch"]
