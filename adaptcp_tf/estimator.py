# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of `tf.estimator.Estimator` and `tf.compat.v1.train.MonitoredTrainingSession`."""

from adaptcp_tf._src.estimator import AdaptiveCheckpointHook, RestoreHook, WarmStart

__all__ = ["AdaptiveCheckpointHook", "RestoreHook", "WarmStart"]
