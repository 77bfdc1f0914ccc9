# SPDX-License-Identifier: Apache-2.0
"""Rows in the formats of others, loaded into a model that is checkpointed."""

from adaptcp_tf._src.importing import TfraImport, tfra_files

__all__ = ["TfraImport", "tfra_files"]
