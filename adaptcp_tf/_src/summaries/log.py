# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints to TensorBoard's event files."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable

import tensorflow as tf

from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport, StorageStats
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.summaries.scalars import (
    RATES_TAG,
    rates_histogram,
    saved_scalars,
    storage_scalars,
    uploaded_scalars,
)


class SummaryLog:
    """An observer that writes `adaptcp/*` by step; eagerly or beside a TF1 session.

    Example:
        >>> observers.add(SummaryLog("/logs/run1", lambda: manager.storage))

    Args:
        log_dir: where TensorBoard looks, a path or URI; the same as of Keras' TensorBoard callback
            is fine.
        storage: how far the tiers are; None when nobody knows any more.
    """

    def __init__(self, log_dir: str, storage: Callable[[], StorageStats | None]):
        self._log_dir = log_dir
        self._storage = storage
        # Reentrant: a finalizer may close the log on a thread that holds it.
        self._mutex = threading.RLock()
        # Guarded by it.
        self._writer: tf.compat.v1.summary.FileWriter | None = None

    def __str__(self) -> str:
        return f"TensorBoard's log {self._log_dir!r}"

    def saved(self, report: SaveReport, rates: Callable[[], RateHistogram]) -> None:
        """Writes what is known when a checkpoint is durable in the first tier.

        Raises:
            Exception: what TensorFlow's writer raises; the next checkpoint begins another file.
        """
        histogram = rates_histogram(rates())
        self._write(
            {**saved_scalars(report), **uploaded_scalars(report)},
            report.step,
            tf.compat.v1.Summary.Value(tag=RATES_TAG, histo=histogram),
        )

    def uploaded(self, report: SaveReport) -> None:
        """Writes what is known when it is durable in the directory; raises as `saved`."""
        self._write(uploaded_scalars(report), report.step)

    def close(self) -> None:
        """Writes what is left and closes the file."""
        with self._mutex:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()

    def _write(
        self, scalars: dict[str, float], step: int, *others: tf.compat.v1.Summary.Value
    ) -> None:
        storage = self._storage()
        if storage is not None:
            scalars = {**scalars, **storage_scalars(storage)}
        values = [
            tf.compat.v1.Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars.items()
        ]
        with self._mutex:
            if self._writer is None:
                self._writer = self._begin_file()
            try:
                self._writer.add_summary(tf.compat.v1.Summary(value=[*values, *others]), step)
                # A remote file may be written anew as a whole; it is flushed every two minutes.
                if files.is_local(self._log_dir):
                    self._writer.flush()
            except BaseException:
                # From now on it would drop all that it is given, and say nothing.
                broken, self._writer = self._writer, None
                with contextlib.suppress(Exception):
                    broken.close()
                raise

    def _begin_file(self) -> tf.compat.v1.summary.FileWriter:
        # The writer of TF1 takes protos and needs no graph, but refuses to be made eagerly.
        with tf.Graph().as_default():
            # Otherwise files that are begun in the same second have the same name.
            suffix = f".adaptcp-{secrets.token_hex(4)}"
            return tf.compat.v1.summary.FileWriter(self._log_dir, filename_suffix=suffix)
