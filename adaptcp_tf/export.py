# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the formats of others."""

from adaptcp_tf._src.export import TfraExport, tfra_files

__all__ = ["TfraExport", "tfra_files"]
