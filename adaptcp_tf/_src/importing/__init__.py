# SPDX-License-Identifier: Apache-2.0
"""Rows in the formats of others, loaded into a model that a manager saves; one module a format."""

from adaptcp_tf._src.importing.from_tfra import TfraImport, tfra_files

__all__ = ["TfraImport", "tfra_files"]
