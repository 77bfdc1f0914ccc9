# SPDX-License-Identifier: Apache-2.0
"""Looks into segments without any table."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import tensorflow as tf

from adaptcp_tf._src.ops.library import ops


@dataclasses.dataclass(frozen=True)
class SegmentKeys:
    """The keys of a segment, without its values.

    Attributes:
        keys: [n] int64, int32, or objects of type bytes.
        last_updated: [n] int64, interval of the newest update of each.
        tombstones: [n] bool, whether the key was removed.
    """

    keys: np.ndarray
    last_updated: np.ndarray
    tombstones: np.ndarray


def verify_segment(path: str) -> dict[str, int]:
    """Reads every byte of a segment; may be called on several threads.

    Args:
        path: the segment, a path or URI.

    Returns:
        bytes, rows, tombstones and footer_crc.

    Raises:
        tf.errors.DataLossError: it is damaged.
        tf.errors.OpError: it could not be read.
    """
    with tf.device("/CPU:0"):
        return json.loads(ops.adaptcp_verify_segment(path).numpy())


def read_segment_keys(path: str, key_dtype: tf.DType) -> SegmentKeys:
    """Reads the key records of a segment; may be called on several threads.

    Args:
        path: the segment, a path or URI.
        key_dtype: tf.int64, tf.int32 or tf.string, as the segment has.

    Returns:
        Its keys.

    Raises:
        tf.errors.DataLossError: it is damaged.
        tf.errors.InvalidArgumentError: it has keys of another dtype.
        tf.errors.OpError: it could not be read.
    """
    with tf.device("/CPU:0"):
        outputs = ops.adaptcp_read_segment_keys(path, key_dtype=key_dtype)
    return SegmentKeys(*(output.numpy() for output in outputs))
