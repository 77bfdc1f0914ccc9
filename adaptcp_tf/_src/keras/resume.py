# SPDX-License-Identifier: Apache-2.0
"""Continues the input of a training that was stopped in the middle of an epoch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adaptcp_tf._src.manifest import Position


class InitialPosition:
    """Tells `Model.fit` in which epoch and at which batch to start.

    Stands where Keras keeps the state of its own BackupAndRestore, and is asked in the same way.
    """

    def __init__(self, position: Position):
        self._position = position

    def maybe_load_initial_counters_from_ckpt(
        self, steps_per_epoch: int | None, initial_epoch: int, mode: Any
    ) -> tuple[int, int]:
        """Returns (epoch, batch) to start with."""
        del steps_per_epoch, mode
        if self._position.epoch < initial_epoch:
            return initial_epoch, 0
        return self._position.epoch, self._position.batch


def resumed(dataset: tf.data.Dataset, position: Position) -> tf.data.Dataset:
    """Returns `dataset` without what training has consumed already.

    The first iteration starts at the position, later ones at the beginning. A dataset that repeats
    for ever is one iteration, whatever the number of epochs. A dataset that is shuffled anew in each
    iteration goes on with the order of the epoch that was interrupted.

    Args:
        dataset: batches, as given to the interrupted `fit`.
        position: where that was interrupted.

    Returns:
        A dataset with the same elements, and the same cardinality, since `fit` counts the batches
        of the first epoch from the position on.
    """
    cardinality = dataset.cardinality()
    endless = cardinality == tf.data.INFINITE_CARDINALITY
    nothing = tf.constant(0, tf.int64)
    finished_epochs = tf.constant(0 if endless else position.epoch, tf.int64)
    skipped = tf.constant(position.batches_total if endless else position.batch, tf.int64)
    first = tf.Variable(True, trainable=False, dtype=tf.bool)

    def iteration(_: tf.Tensor) -> tf.data.Dataset:
        is_first = first.read_value()
        with tf.control_dependencies([is_first]):
            first.assign(False)
        # One iterator for each finished epoch, so that a shuffle draws the seeds it drew for it.
        past = tf.data.Dataset.range(tf.where(is_first, finished_epochs, nothing))
        past = past.flat_map(lambda _: dataset.take(1)).filter(lambda *_: tf.constant(False))
        return past.concatenate(dataset.skip(tf.where(is_first, skipped, nothing)))

    whole = tf.data.Dataset.range(1).flat_map(iteration)
    if cardinality >= 0:
        whole = whole.apply(tf.data.experimental.assert_cardinality(cardinality))
    # The dataset's function knows the variable but does not keep it alive.
    whole._adaptcp_first = first
    return whole
