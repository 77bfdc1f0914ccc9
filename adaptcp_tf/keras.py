# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for `tf.keras.Model.fit`."""

from adaptcp_tf._src.keras import AdaptiveCheckpoint, ExportBest

__all__ = ["AdaptiveCheckpoint", "ExportBest"]
