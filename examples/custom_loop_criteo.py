# SPDX-License-Identifier: Apache-2.0
"""Trains a click model on a Criteo log in a loop of its own; may be killed and started again.

Example:
  python examples/custom_loop_criteo.py --directory /tmp/criteo --epochs 3 --save_freq 5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import command_line
import tensorflow as tf

import adaptcp_tf as acp

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from workloads import criteo_file, digest, models


class Training:
    """A model, its optimizer, and how far they are: all that a checkpoint must hold."""

    def __init__(self):
        self.model = models.CriteoModel()
        # An attribute of the model, so that it is saved as well.
        self.model.mean_loss = tf.keras.metrics.Mean()
        self.optimizer = models.adam()
        self.loss = tf.keras.losses.BinaryCrossentropy()
        self.position = acp.Position(epoch=0, batch=0, batches_total=0)
        self.clicks = 0  # a number of this loop's own

    @tf.function
    def step(self, inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> None:
        """Trains on a batch."""
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(inputs, training=True))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.model.mean_loss.update_state(loss)

    def batches(self, dataset: tf.data.Dataset, epochs: int) -> Iterator[tuple]:
        """Yields what is left to train on; `position` is behind the batch that was yielded last."""
        for epoch in range(self.position.epoch, epochs):
            done = self.position.batch if epoch == self.position.epoch else 0
            for batch, (inputs, labels) in enumerate(dataset.skip(done), start=done + 1):
                total = self.position.batches_total + 1
                self.position = acp.Position(epoch=epoch, batch=batch, batches_total=total)
                self.clicks += int(tf.reduce_sum(labels))
                yield inputs, labels

    def save(self, manager: acp.CheckpointManager) -> None:
        """Takes a checkpoint, which is written while training goes on."""
        counters = {"clicks": self.clicks}
        manager.save(self.position.batches_total, position=self.position, counters=counters)

    def restore(self, manager: acp.CheckpointManager, dataset: tf.data.Dataset) -> None:
        """Goes back to the newest checkpoint, if there is any."""
        if manager.latest_step() is not None:
            # Builds the model, which otherwise would be restored in its first step only.
            self.model(next(iter(dataset))[0])
            report = manager.restore()
            self.position, self.clicks = report.position, report.counters["clicks"]


def train_with_checkpoints(
    training: Training, dataset: tf.data.Dataset, args: argparse.Namespace
) -> None:
    """Trains, continuing where a killed run left off."""
    # Before the first step, so that every update is tracked.
    manager = acp.CheckpointManager(
        args.directory,
        model=training.model,
        optimizer=training.optimizer,
        options=acp.CheckpointOptions(
            strategy=args.strategy, when_busy=args.when_busy, max_to_keep=3
        ),
    )
    training.restore(manager, dataset)
    for inputs, labels in training.batches(dataset, args.epochs):
        training.step(inputs, labels)
        manager.step_ended()
        if training.position.batches_total % args.save_freq == 0:
            training.save(manager)
    manager.wait()
    if manager.latest_step() != training.position.batches_total:
        training.save(manager)
        manager.wait()
    manager.close()


def main() -> None:
    """Trains with checkpoints, or without."""
    parser = command_line.parser(__doc__, batch=128)
    parser.add_argument("--data", help="a Criteo log; default: the sample in ADAPTCP_DATA")
    args = parser.parse_args()
    samples = criteo_file.read(args.data or criteo_file.locate(), args.samples)
    inputs = {"ids": samples.ids, "dense": samples.dense}
    dataset = tf.data.Dataset.from_tensor_slices((inputs, samples.labels)).batch(args.batch)
    training = Training()

    if args.strategy == "none":
        for batch in training.batches(dataset, args.epochs):
            training.step(*batch)
    else:
        train_with_checkpoints(training, dataset, args)
    loss = float(training.model.mean_loss.result())
    print(f"batch {training.position.batches_total}: loss {loss:.4f}, {training.clicks} clicks")

    if args.digest_out:
        digest.digest(training.model, training.optimizer).write(args.digest_out)


if __name__ == "__main__":
    main()
