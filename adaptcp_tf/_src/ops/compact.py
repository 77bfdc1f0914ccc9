# SPDX-License-Identifier: Apache-2.0
"""Merges the chain of one shard into a base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.ops.segments import segment_tensors


def compact_shard(
    segments: Sequence[Any],
    paths: Sequence[str],
    *,
    group: str,
    key_dtype: tf.DType,
    shard: int,
    num_shards: int,
    interval: int,
    directory: str,
    file_prefix: str,
    num_threads: int,
) -> dict[str, Any]:
    """Writes the current rows of a chain into new files, which are durable on return.

    Args:
        segments: manifest records of the files: the differential, the increments by falling interval,
            the base; all of one shard.
        paths: where each of them is.
        group: name of the group.
        key_dtype: of its keys.
        shard: number of the shard.
        num_shards: how many there are.
        interval: of the checkpoint.
        directory: existing directory of the new files.
        file_prefix: they are named `file_prefix`-base.acp, and `file_prefix`-base-p<number>.acp.
        num_threads: threads that read; each writes a file of its own.

    Returns:
        segments (as of a drain), rows, stale_rows and bytes_read.

    Raises:
        tf.errors.DataLossError: a file is damaged.
        tf.errors.InvalidArgumentError: rows were quantised, or files do not belong together.
        tf.errors.OpError: the store failed.
    """
    with tf.device("/CPU:0"):
        result = ops.adaptcp_compact(
            tf.constant(interval, tf.int64),
            directory,
            file_prefix,
            *segment_tensors(paths, segments),
            key_dtype=key_dtype,
            group_name=group,
            shard=shard,
            num_shards=num_shards,
            num_threads=num_threads,
        )
    return json.loads(result.numpy())
