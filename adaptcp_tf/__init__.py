# SPDX-License-Identifier: Apache-2.0
"""Exact, cheap checkpoints of TensorFlow Recommenders Addons tables while training runs."""

from adaptcp_tf import cost_model, data, errors, export, importing, keras, policies
from adaptcp_tf._src.checkpoint import CheckpointManager, CheckpointOptions
from adaptcp_tf._src.tables import TrackedTableCreator

__all__ = [
    "CheckpointManager",
    "CheckpointOptions",
    "TrackedTableCreator",
    "cost_model",
    "data",
    "errors",
    "export",
    "importing",
    "keras",
    "policies",
]
__version__ = "0.1.0"
