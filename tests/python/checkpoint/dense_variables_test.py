# SPDX-License-Identifier: Apache-2.0
"""Dense variables: of the instant of the cut, whatever happens to them afterwards."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from tests.support import models, tables


class Holder(tf.Module):
    """Any trackable may be saved; this one holds variables of all sorts."""

    def __init__(self):
        super().__init__()
        self.big = tf.Variable(tf.zeros([1000, 1000]))
        self.things = {
            "int": tf.Variable(tf.constant(1, tf.int64)),
            "bool": tf.Variable(True),
            "string": tf.Variable("text"),
            "half": tf.Variable(tf.constant([1.0, 2.0], tf.float16)),
            "complex": tf.Variable(tf.complex(1.0, 2.0)),
            "empty": tf.Variable(tf.zeros([0, 3])),
        }
        self.many = [tf.Variable(float(i)) for i in range(3)]

    def values(self):
        flat = [self.big, *self.things.values(), *self.many]
        return [np.asarray(variable.numpy()).tolist() for variable in flat]


def manage(directory, model, **arguments):
    options = acp.CheckpointOptions(when_busy="wait", max_to_keep=None)
    return acp.CheckpointManager(str(directory), model=model, options=options, **arguments)


def test_every_kind_of_variable_round_trips(tmp_path):
    holder = Holder()
    manager = manage(tmp_path, holder)
    expected = holder.values()
    manager.save(1)
    holder.big.assign_add(tf.ones_like(holder.big))
    for name, other in {"int": 5, "bool": False, "string": "x", "half": [3, 4]}.items():
        holder.things[name].assign(other)
    holder.many[2].assign(-1.0)
    assert holder.values() != expected
    manager.restore(1)
    assert holder.values() == expected
    manager.close()


@pytest.mark.parametrize("change", ["assign", "assign_add", "scatter", "in a function"])
def test_change_right_after_the_cut_is_not_in_it(tmp_path, change):
    """The snapshot takes references; TensorFlow copies a buffer before it is written to."""
    holder = Holder()
    ones = tf.ones_like(holder.big)
    in_function = tf.function(lambda: holder.big.assign_add(ones))
    in_function()
    holder.big.assign(tf.zeros_like(holder.big))
    changes = {
        "assign": lambda: holder.big.assign(ones),
        "assign_add": lambda: holder.big.assign_add(ones),
        "scatter": lambda: holder.big.scatter_add(tf.IndexedSlices(ones, tf.range(1000))),
        "in a function": in_function,
    }
    manager = manage(tmp_path, holder)
    for step in range(1, 6):
        manager.save(step)
        changes[change]()
        if change == "assign":
            ones = ones + 1.0
    manager.wait()
    for step in (5, 1, 3):
        manager.restore(step)
        assert (holder.big.numpy() == step - 1).all(), step
    manager.close()


def test_dense_and_rows_are_of_one_instant(tmp_path):
    model = models.build()
    manager = manage(tmp_path, model)
    expected = {}
    for step, batch in enumerate(models.dataset(6), start=1):
        model.train_on_batch(*batch)
        expected[step] = models.parts(model)
        manager.save(step)
    manager.wait()
    for step in (2, 6, 1, 4):
        manager.restore(step)
        assert models.parts(model) == expected[step]
    manager.close()


@pytest.mark.parametrize("optimizer", models.OPTIMIZERS)
def test_restored_training_takes_the_same_next_steps(tmp_path, optimizer):
    batches = list(models.dataset(8))
    model = models.build("nested", optimizer)
    manager = manage(tmp_path, model)
    models.train(model, batches[:4])
    manager.save(4)
    losses = models.train(model, batches[4:])
    expected = models.parts(model)
    manager.close()

    model = models.build("nested", optimizer)
    manager = manage(tmp_path, model)
    manager.restore()
    assert models.train(model, batches[4:]) == losses
    assert models.parts(model) == expected
    manager.close()


def test_optimizer_that_the_model_does_not_hold(tmp_path):
    """A custom loop: the model is not compiled."""
    batches = list(models.dataset(6))

    def start():
        tables.start_over()
        model = models.functional()
        optimizer = de.DynamicEmbeddingOptimizer(tf.keras.optimizers.Adam(0.05))
        manager = manage(tmp_path, model, optimizer=optimizer)

        @tf.function
        def step(inputs, labels):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(inputs) - labels) ** 2)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        return manager, lambda some: [float(step(*batch)) for batch in some]

    manager, train = start()
    train(batches[:3])
    manager.save(3)
    losses = train(batches[3:])
    manager.close()
    manager, train = start()
    manager.restore()
    assert train(batches[3:]) == losses
    manager.close()


@pytest.mark.parametrize("built_before", [False, True])
@pytest.mark.parametrize("kind", ["subclassed", "lazy"])
def test_restore_before_or_after_the_first_call(tmp_path, kind, built_before):
    batches = list(models.dataset(6))
    model = models.build(kind)
    manager = manage(tmp_path, model)
    models.train(model, batches[:3])
    manager.save(3)
    prediction = model.predict_on_batch(batches[3][0])
    losses = models.train(model, batches[3:])
    manager.close()

    model = models.build(kind)
    manager = manage(tmp_path, model)
    if built_before:
        model.predict_on_batch(batches[0][0])
    report = manager.restore()
    assert (report is not None) == built_before
    np.testing.assert_array_equal(model.predict_on_batch(batches[3][0]), prediction)
    assert models.train(model, batches[3:]) == losses
    manager.close()


def test_model_without_tables_is_saved_too(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.build([None, 3])
    manager = manage(tmp_path, model)
    expected = model.get_weights()
    manager.save(1)
    model.set_weights([w + 1 for w in expected])
    manager.save(2)
    manager.wait()
    manager.restore(1)
    for ours, theirs in zip(model.get_weights(), expected):
        np.testing.assert_array_equal(ours, theirs)
    manager.close()
