# SPDX-License-Identifier: Apache-2.0
"""How far an export is, in bytes of the checkpoint: half when rows are restored, half when written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from adaptcp_tf._src.manifest import Segment

Watch = Callable[[int, int], None]


def nobody_watches(done: int, total: int) -> None:
    """Takes the bytes done and those to do, and does nothing with them."""


class Progress:
    """Tells somebody of the bytes that are done, shard by shard and block by block.

    Example:
        >>> with progress.part(segments, rows):
        ...     for keys, values in progress.counted(blocks):
        ...         write(keys, values)

    Args:
        segments: all that the export reads.
        watch: called now and then with the bytes done and those of all segments.
    """

    def __init__(self, segments: Iterable[Segment] = (), watch: Watch = nobody_watches):
        self._total = sum(segment.bytes for segment in segments)
        self._watch = watch
        self._done = 0
        # Of the part that is being written.
        self._bytes = self._rows = self._rows_written = 0

    @contextlib.contextmanager
    def part(self, segments: Iterable[Segment], rows: int) -> Iterator[None]:
        """Rows that are restored, and written meanwhile; one part after the other.

        Args:
            segments: that the rows came from.
            rows: of all tables; those that are not written count when the part ends.
        """
        self._bytes = sum(segment.bytes for segment in segments)
        self._rows, self._rows_written = rows, 0
        self.wrote(0)
        yield
        self._done += self._bytes
        self._watch(self._done, self._total)

    def wrote(self, rows: int) -> None:
        """Notes so many more rows of any table of the part that are written."""
        self._rows_written += rows
        share = 0.5 + 0.5 * self._rows_written / max(1, self._rows)
        self._watch(self._done + int(self._bytes * share), self._total)

    def counted(
        self, blocks: Iterable[tuple[tf.Tensor, tf.Tensor]]
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Yields blocks of keys and values; one counts when the next is asked for."""
        for keys, values in blocks:
            yield keys, values
            self.wrote(len(keys))
