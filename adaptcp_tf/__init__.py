# SPDX-License-Identifier: Apache-2.0
"""Exact, cheap checkpoints of TensorFlow Recommenders Addons tables while training runs."""

from adaptcp_tf._src.environment import check_keras, choose_keras

choose_keras()  # before anything uses tf.keras

# Before TFRA is imported, which under another TensorFlow fails with symbols instead of a sentence.
from adaptcp_tf._src.ops import library  # noqa: F401

check_keras()

from adaptcp_tf import cost_model, data, errors, estimator, export, importing, keras, policies
from adaptcp_tf._src.checkpoint import CheckpointManager, CheckpointOptions
from adaptcp_tf._src.manifest import Position
from adaptcp_tf._src.tables import TrackedTableCreator

__all__ = [
    "CheckpointManager",
    "CheckpointOptions",
    "Position",
    "TrackedTableCreator",
    "cost_model",
    "data",
    "errors",
    "estimator",
    "export",
    "importing",
    "keras",
    "policies",
]
__version__ = "0.1.0"
