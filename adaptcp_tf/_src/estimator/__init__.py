# SPDX-License-Identifier: Apache-2.0
"""Hooks for Estimators and TF1 sessions."""

from adaptcp_tf._src.estimator.hook import AdaptiveCheckpointHook
from adaptcp_tf._src.estimator.reading import RestoreHook, WarmStart

__all__ = ["AdaptiveCheckpointHook", "RestoreHook", "WarmStart"]
