# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the formats of others, and models for serving."""

from adaptcp_tf._src.export import (
    DeltaExport,
    RowsExport,
    SavedModelExport,
    TfraExport,
    delta,
    npz_files,
    parquet_files,
    saved_model,
    saved_model_from_template,
    tfra_files,
)

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
