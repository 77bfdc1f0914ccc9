# SPDX-License-Identifier: Apache-2.0
"""Uploads files from whichever machine has them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import tensorflow as tf

from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.ops.library import ops


@dataclasses.dataclass(frozen=True)
class FileCopy:
    """A file and where it goes.

    Attributes:
        source: a path or URI.
        target: a path or URI whose directory exists.
        bytes: the size that the source must have.
    """

    source: str
    target: str
    bytes: int


def upload(
    copies: Sequence[FileCopy],
    *,
    device: str = "",
    num_threads: int = 4,
    atomic_writes: bool = False,
    resume: bool = False,
) -> dict[str, int]:
    """Copies files; they are durable on return. Failures are tried again for some seconds.

    Args:
        copies: what goes where.
        device: where the sources are, such as that of a table on a parameter server.
        num_threads: files that are copied at once.
        atomic_writes: whether the targets' store shows a file only when all of it is there.
        resume: leave alone targets that are there with the right size.

    Returns:
        files, bytes (copied now) and retries.

    Raises:
        tf.errors.DataLossError: a source is missing or has another size.
        tf.errors.OpError: the store failed.
    """
    with eagerly(), tf.device(device):
        result = ops.adaptcp_upload(
            tf.constant([c.source for c in copies], tf.string, shape=[len(copies)]),
            tf.constant([c.target for c in copies], tf.string, shape=[len(copies)]),
            tf.constant([c.bytes for c in copies], tf.int64, shape=[len(copies)]),
            num_threads=num_threads,
            atomic_writes=atomic_writes,
            resume=resume,
        )
    return json.loads(result.numpy())
