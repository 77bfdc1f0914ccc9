# SPDX-License-Identifier: Apache-2.0
"""The segments of a chain, as the ops that read one take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def segment_tensors(paths: Sequence[str], segments: Sequence[Any]) -> list[tf.Tensor]:
    """Returns paths, kinds, intervals, shards, bytes and footer checksums, [n] each.

    Args:
        paths: where the files are.
        segments: what the manifest says of them, in the same order.
    """

    def column(name: str, dtype: tf.DType) -> tf.Tensor:
        return tf.constant([getattr(s, name) for s in segments], dtype, shape=[len(segments)])

    return [
        tf.constant(list(paths), tf.string, shape=[len(paths)]),
        column("kind", tf.string),
        column("interval", tf.int64),
        column("shard", tf.int64),
        column("bytes", tf.int64),
        column("footer_crc", tf.int64),
    ]
