# SPDX-License-Identifier: Apache-2.0
"""The Keras callback."""

from adaptcp_tf._src.keras.callback import AdaptiveCheckpoint
from adaptcp_tf._src.keras.export_best import ExportBest

__all__ = ["AdaptiveCheckpoint", "ExportBest"]
