# SPDX-License-Identifier: Apache-2.0
"""Resume with bit-identical results in ways of training that are less common."""

import functools

import pytest
import tensorflow as tf

from tests.support import fitting, models
from tests.support.fitting import BATCHES


def dataset():
    return models.dataset(BATCHES)


def assert_resumes(directory, build, *, stops, **options):
    """Interrupts a training after each of `stops` batches or calls; the end is as without that."""
    whole = fitting.plain(dataset, build)
    for stop in stops:
        fitting.start(directory, dataset, build, stop_after=stop, **options)
    resumed = fitting.start(directory, dataset, build, **options)
    assert resumed.callback.restored is not None
    assert resumed.parts == whole.parts
    return resumed


# Mixed precision.


@pytest.fixture(params=["mixed_float16", "mixed_bfloat16"])
def mixed_precision(request):
    tf.keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    tf.keras.mixed_precision.set_global_policy("float32")


def test_mixed_precision(tmp_path, mixed_precision):
    resumed = assert_resumes(tmp_path, models.build, stops=[10, 3])
    assert resumed.callback.restored.step == 12


# Several steps in one call of the training function.


def steps_of(outcome):
    return [report["step"] for report in outcome.callback.history]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("steps", [2, 3, 7, 20])
def test_several_steps_a_call(tmp_path, steps, eager):
    build = functools.partial(models.build, steps_per_execution=steps, run_eagerly=eager)
    resumed = assert_resumes(tmp_path, build, stops=[2], save_freq=1)
    assert resumed.callback.restored.step == 2 * min(steps, BATCHES)


def test_saves_after_the_call_in_which_a_save_was_due(tmp_path):
    build = functools.partial(models.build, steps_per_execution=3)
    whole = fitting.start(tmp_path, dataset, build, epochs=2, save_freq=4, max_to_keep=None)
    # Calls end after batches 3, 6, 7, 10, 13 and 14; saves are due after 4, 8 and 12.
    assert steps_of(whole) == [6, 10, 13, 14]


# Gradients that are accumulated by hand.


class Accumulating(models.Subclassed):
    """Applies the dense gradients of several batches at once, embeddings' with each batch."""

    every = 4

    def __init__(self):
        super().__init__()
        self.seen = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.sums = None

    def train_step(self, data):
        inputs, labels = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(labels, self(inputs, training=True))
        dense = self.out.trainable_variables
        rows = [v for v in self.trainable_variables if all(v is not d for d in dense)]
        gradients = tape.gradient(loss, [*rows, *dense])
        if self.sums is None:
            with tf.init_scope():
                self.sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in dense]
        self.optimizer.apply_gradients(zip(gradients[: len(rows)], rows))
        for total, gradient in zip(self.sums, gradients[len(rows) :]):
            total.assign_add(gradient)
        self.seen.assign_add(1)
        tf.cond(self.seen % self.every == 0, lambda: self.apply_sums(dense), lambda: tf.no_op())
        return {"loss": loss}

    def apply_sums(self, dense):
        for total, variable in zip(self.sums, dense):
            variable.assign_sub(0.05 * total / self.every)
            total.assign(tf.zeros_like(total))
        return tf.no_op()


@pytest.mark.parametrize("eager", [False, True])
def test_gradients_accumulated_by_hand(tmp_path, eager):
    """Interrupted between the batches of one accumulation."""
    build = functools.partial(models.build, Accumulating, run_eagerly=eager)
    resumed = assert_resumes(tmp_path, build, stops=[10, 1], save_freq=1)
    assert resumed.callback.restored.step % Accumulating.every == 3
