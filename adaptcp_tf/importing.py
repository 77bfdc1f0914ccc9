# SPDX-License-Identifier: Apache-2.0
"""Rows in the formats of others, loaded into models that are checkpointed or serve."""

from adaptcp_tf._src.importing import DeltaImport, TfraImport, delta, tfra_files

__all__ = ["DeltaImport", "TfraImport", "delta", "tfra_files"]
