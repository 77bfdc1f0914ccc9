# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the formats of others, one module a format."""

from adaptcp_tf._src.export.to_tfra import TfraExport, tfra_files

__all__ = ["TfraExport", "tfra_files"]
