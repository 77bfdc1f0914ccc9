# SPDX-License-Identifier: Apache-2.0
"""What of a checkpoint becomes which scalar or histogram of TensorBoard; pure functions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport, StorageStats

_PREFIX = "adaptcp/"
RATES_TAG = _PREFIX + "rows/update_rate"


def saved_scalars(report: SaveReport) -> dict[str, float]:
    """Returns tag -> value of a checkpoint that is durable in the first tier.

    Values that are not known, and a threshold where all rows are cold, are left out.
    """
    values = {
        "stall_ms": report.stall_ms,
        "room_wait_ms": report.room_wait_ms,
        "seconds_to_durable": report.seconds_to_durable,
        "rows/hot": report.rows_hot,
        "rows/cold": report.rows_cold,
        "rows/removed": report.tombstones,
        "rows/saved_on_update": report.rows_saved_on_update,
        "rows/drained": report.rows_drained,
        "rows/prefetched": report.rows_prefetched,
        "bytes/base": report.bytes_base,
        "bytes/increment": report.bytes_increment,
        "bytes/differential": report.bytes_differential,
        "bytes/dense": report.bytes_dense,
        "bytes/written": report.bytes,
        "bytes/read_at_restore": report.restore_bytes,
        "chain_length": report.chain_length,
        "policy/threshold": report.hot_threshold if report.hot_threshold <= 1 else None,
        "policy/rho": report.rho,
    }
    return _tagged(values)


def uploaded_scalars(report: SaveReport) -> dict[str, float]:
    """Returns tag -> value of a checkpoint that is durable in the directory too."""
    return _tagged(
        {
            "seconds_to_uploaded": report.seconds_to_uploaded,
            "upload_lag_secs": report.upload_lag_secs,
        }
    )


def storage_scalars(storage: StorageStats) -> dict[str, float]:
    """Returns tag -> value of how far the tiers are."""
    return _tagged(
        {
            "tiers/buffer_bytes": storage.local_bytes,
            "tiers/uploaded_bytes": storage.uploaded_bytes,
            "tiers/upload_retries": storage.upload_retries,
        }
    )


def _tagged(values: dict[str, float | None]) -> dict[str, float]:
    return {_PREFIX + name: float(value) for name, value in values.items() if value is not None}


def rates_histogram(rates: RateHistogram) -> tf.compat.v1.HistogramProto:
    """Returns how many rows have which update rate; edges halfway between the means of bins."""
    used = rates.rows > 0
    rows, means = rates.rows[used], rates.rates[used]
    edges = np.append((means[1:] + means[:-1]) / 2, 1.0) if len(means) else np.array([])
    return tf.compat.v1.HistogramProto(
        min=float(means.min(initial=1.0)),
        max=float(means.max(initial=0.0)),
        num=float(rows.sum()),
        sum=float(rows @ means),
        sum_squares=float(rows @ means**2),
        bucket_limit=edges.tolist(),
        bucket=rows.tolist(),
    )
