# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the formats of others, one module a format; models for serving."""

from adaptcp_tf._src.export.delta import DeltaExport, delta
from adaptcp_tf._src.export.from_template import saved_model_from_template
from adaptcp_tf._src.export.report import RowsExport, SavedModelExport
from adaptcp_tf._src.export.saved_model import saved_model
from adaptcp_tf._src.export.to_columns import npz_files, parquet_files
from adaptcp_tf._src.export.to_tfra import TfraExport, tfra_files

__all__ = [
    "DeltaExport",
    "RowsExport",
    "SavedModelExport",
    "TfraExport",
    "delta",
    "npz_files",
    "parquet_files",
    "saved_model",
    "saved_model_from_template",
    "tfra_files",
]
