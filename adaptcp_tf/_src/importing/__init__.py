# SPDX-License-Identifier: Apache-2.0
"""Rows in the formats of others, loaded into models; one module a format."""

from adaptcp_tf._src.importing.delta import DeltaImport, delta
from adaptcp_tf._src.importing.from_tfra import TfraImport, tfra_files

__all__ = ["DeltaImport", "TfraImport", "delta", "tfra_files"]
