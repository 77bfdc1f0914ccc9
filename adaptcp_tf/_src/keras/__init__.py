# SPDX-License-Identifier: Apache-2.0
"""The Keras callback."""

from adaptcp_tf._src.keras.callback import AdaptiveCheckpoint

__all__ = ["AdaptiveCheckpoint"]
