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

    def __init__(self, epoch: int, batch: int):
        self._epoch = epoch
        self._batch = batch

    def maybe_load_initial_counters_from_ckpt(
        self, steps_per_epoch: int | None, initial_epoch: int, mode: Any
    ) -> tuple[int, int]:
        """Returns (epoch, batch) to start with."""
        del steps_per_epoch, mode
        if self._epoch < initial_epoch:
            return initial_epoch, 0
        return self._epoch, self._batch


def resumed(dataset: tf.data.Dataset, position: Position, *, one_pass: bool) -> tf.data.Dataset:
    """Returns `dataset` without what training has consumed already.

    The first iteration starts at the position, later ones at the beginning. A dataset that is
    shuffled anew in each iteration goes on with the order of the epoch that was interrupted.

    Args:
        dataset: batches, as given to the interrupted `fit`.
        position: where that was interrupted.
        one_pass: whether all epochs share one iteration over the dataset; see `is_one_pass`.

    Returns:
        A dataset with the same elements, and the same cardinality, since `fit` counts the batches
        of the first epoch from the position on.
    """
    cardinality = int(dataset.cardinality())
    endless = cardinality == tf.data.INFINITE_CARDINALITY
    if not endless:
        # A shuffle draws new seeds for each iterator. `fit` makes one before the first epoch, and
        # then one an epoch.
        for _ in range(1 if one_pass else 1 + position.epoch):
            iter(dataset)
    nothing = tf.constant(0, tf.int64)
    skipped = position.batches_total if endless or one_pass else position.batch
    first = tf.Variable(True, trainable=False, dtype=tf.bool)

    def iteration(_: tf.Tensor) -> tf.data.Dataset:
        is_first = first.read_value()
        with tf.control_dependencies([is_first]):
            first.assign(False)
        return dataset.skip(tf.where(is_first, tf.constant(skipped, tf.int64), nothing))

    whole = tf.data.Dataset.range(1).flat_map(iteration)
    if endless or (cardinality >= 0 and not one_pass):
        whole = whole.apply(tf.data.experimental.assert_cardinality(cardinality))
    # The dataset's function knows the variable but does not keep it alive.
    whole._adaptcp_first = first
    return whole


def is_one_pass(cardinality: int | None, steps_per_epoch: int | None) -> bool:
    """Whether `fit` iterates once over its dataset for all epochs, or anew in each epoch.

    Args:
        cardinality: of the dataset; None when it is not known which dataset `fit` got.
        steps_per_epoch: as `fit` was told, or inferred from the cardinality; None when neither.
    """
    return None not in (cardinality, steps_per_epoch) and cardinality != steps_per_epoch
