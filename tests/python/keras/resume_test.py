# SPDX-License-Identifier: Apache-2.0
"""A training that was interrupted and resumed ends with the bits of one that never was."""

import contextlib
import functools

import pytest
import tensorflow as tf

from tests.support import fitting, models
from tests.support.fitting import BATCHES


def dataset():
    return models.dataset(BATCHES)


uninterrupted = functools.cache(fitting.plain)


def assert_resumes(directory, dataset, build=models.build, *, stops, epochs=3, fit=None, **options):
    """Interrupts a training after each of `stops` batches, resumes it, and compares the end."""
    whole = (
        uninterrupted(dataset, build, epochs)
        if not fit
        else fitting.plain(dataset, build, epochs, **fit)
    )
    arguments = {"epochs": epochs, "fit": fit, **options}
    for stop in stops:
        fitting.start(directory, dataset, build, stop_after=stop, **arguments)
    resumed = fitting.start(directory, dataset, build, **arguments)
    assert resumed.parts == whole.parts
    # Metrics of an epoch count all of its batches, also those before the interruption.
    assert resumed.logs == whole.logs[len(whole.logs) - len(resumed.logs) :]
    return resumed


@pytest.mark.parametrize("kind", models.KINDS)
def test_every_kind_of_model(tmp_path, kind):
    build = functools.partial(models.build, kind)
    assert_resumes(tmp_path, dataset, build, stops=[10])


@pytest.mark.parametrize("optimizer", models.OPTIMIZERS)
def test_every_optimizer(tmp_path, optimizer):
    build = functools.partial(models.build, optimizer=optimizer)
    assert_resumes(tmp_path, dataset, build, stops=[10])


@pytest.mark.parametrize("shards", [2, 3])
def test_sharded_embedding(tmp_path, shards):
    devices = ["/CPU:0"] * shards
    build = functools.partial(models.build, lambda: models.functional(devices=devices))
    assert_resumes(tmp_path, dataset, build, stops=[10])


def test_accumulating_embedding(tmp_path):
    build = functools.partial(models.build, lambda: models.functional(bp_v2=True))
    assert_resumes(tmp_path, dataset, build, stops=[10])


def test_eager_steps(tmp_path):
    build = functools.partial(models.build, run_eagerly=True)
    assert_resumes(tmp_path, dataset, build, stops=[10])


def test_several_steps_in_one_call(tmp_path):
    build = functools.partial(models.build, steps_per_execution=2)
    assert_resumes(tmp_path, dataset, build, stops=[4, 2])


@pytest.mark.parametrize("strategy", ["full", "incremental", "differential"])
def test_every_strategy(tmp_path, strategy):
    assert_resumes(tmp_path, dataset, stops=[10], strategy=strategy, save_freq=1)


# Where the training stops; BATCHES batches an epoch, a checkpoint every third.


@pytest.mark.parametrize(
    ("stops", "save_freq"),
    [
        ([1], 1),  # after the very first batch
        ([2], 3),  # before the first checkpoint: starts anew
        ([BATCHES], BATCHES),  # at the end of an epoch
        ([BATCHES + 1], 1),  # after the first batch of the second
        ([2 * BATCHES - 1], 2 * BATCHES - 1),  # before the last of it
        ([3 * BATCHES], 3),  # after the last batch of all
        ([4, 4, 4], 2),  # again and again
    ],
)
def test_any_place(tmp_path, stops, save_freq):
    assert_resumes(tmp_path, dataset, stops=stops, save_freq=save_freq)


@pytest.mark.parametrize("stop", [BATCHES + 2, 2 * BATCHES])
def test_checkpoints_at_epochs_ends(tmp_path, stop):
    resumed = assert_resumes(tmp_path, dataset, stops=[stop], save_freq="epoch")
    assert [report["step"] % BATCHES for report in resumed.callback.history] == [0] * len(
        resumed.callback.history
    )


def test_training_that_was_finished(tmp_path):
    """Started once more, it trains nothing and ends with the trained model."""
    whole = fitting.start(tmp_path, dataset)
    steps = whole.callback.history[-1]["step"]
    again = fitting.start(tmp_path, dataset)
    assert steps == 3 * BATCHES
    assert again.parts == whole.parts
    assert again.callback.restored.step == steps
    assert again.callback.history == []


def test_finished_training_with_more_epochs(tmp_path):
    fitting.start(tmp_path, dataset, epochs=2)
    longer = fitting.start(tmp_path, dataset, epochs=3)
    assert longer.parts == fitting.plain(dataset, epochs=3).parts


# What it trains on.


def shuffled_anew():
    data = tf.data.Dataset.from_tensor_slices(models.samples(BATCHES))
    return data.shuffle(30, seed=5, reshuffle_each_iteration=True).batch(models.BATCH)


def shuffled_once():
    data = tf.data.Dataset.from_tensor_slices(models.samples(BATCHES))
    return data.shuffle(30, seed=5, reshuffle_each_iteration=False).batch(models.BATCH)


def from_generator():
    batches = list(models.dataset(BATCHES))
    return tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=models.dataset(1).element_spec
    )


def filtered():
    return (
        models.dataset(2 * BATCHES)
        .enumerate()
        .filter(lambda i, _: i % 2 == 0)
        .map(lambda _, batch: batch)
    )


def last_batch_smaller():
    return models.dataset(BATCHES).unbatch().batch(models.BATCH + 1)


def weighted():
    return models.dataset(BATCHES).map(lambda x, y: (x, y, tf.abs(y[:, 0])))


def cached_and_prefetched():
    return models.dataset(BATCHES).cache().prefetch(2)


DATASETS = [
    shuffled_anew,
    shuffled_once,
    from_generator,
    filtered,
    last_batch_smaller,
    weighted,
    cached_and_prefetched,
]


@pytest.mark.parametrize("data", DATASETS, ids=lambda data: data.__name__)
def test_every_kind_of_dataset(tmp_path, data):
    # In the first epoch, and at the end of the second.
    assert_resumes(tmp_path, data, stops=[5, 10], save_freq=2)


@pytest.mark.parametrize("stop", [BATCHES, 3 * BATCHES])
def test_end_of_an_epoch_of_unknown_length(tmp_path, stop):
    assert_resumes(tmp_path, filtered, stops=[stop], save_freq=BATCHES)


@pytest.mark.parametrize("reshuffled", [False, True])
def test_endless_dataset(tmp_path, reshuffled):
    def data():
        samples = tf.data.Dataset.from_tensor_slices(models.samples(BATCHES))
        shuffled = samples.shuffle(30, seed=5, reshuffle_each_iteration=reshuffled)
        return shuffled.repeat().batch(models.BATCH)

    # Epochs of 5 steps do not end where the 7 batches do.
    assert_resumes(tmp_path, data, stops=[4, 6], save_freq=2, fit={"steps_per_epoch": 5})


@pytest.mark.parametrize("data", [dataset, shuffled_once, filtered], ids=lambda d: d.__name__)
def test_epochs_that_share_one_iteration(tmp_path, data):
    """With steps_per_epoch `fit` iterates once over a dataset that is not of that length."""
    assert_resumes(tmp_path, data, stops=[3], save_freq=1, fit={"steps_per_epoch": 2})


def test_epochs_that_share_one_shuffled_iteration(tmp_path):
    fit = {"steps_per_epoch": 2}
    whole = fitting.start(tmp_path / "whole", shuffled_anew, fit=fit)
    fitting.start(tmp_path / "resumed", shuffled_anew, fit=fit, save_freq=1, stop_after=3)
    resumed = fitting.start(tmp_path / "resumed", shuffled_anew, fit=fit, save_freq=1)
    assert resumed.parts == whole.parts


def test_validation_between_epochs(tmp_path):
    fit = {"validation_data": models.dataset(2, seed=3)}
    assert_resumes(tmp_path, dataset, stops=[10], fit=fit)


def test_learning_rate_schedule_by_epoch(tmp_path):
    """The rate is a variable of the optimizer; a callback changes it at the start of an epoch."""

    def scheduler():
        return tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.05 / (1 + epoch))

    model = models.build()
    model.fit(dataset(), epochs=3, verbose=0, callbacks=[scheduler()])
    for stop in (10, None):
        resumed = models.build()
        callback = fitting.acp.keras.AdaptiveCheckpoint(
            str(tmp_path), save_freq=3, when_busy="wait"
        )
        callbacks = [scheduler(), callback, *([fitting.StopAfter(stop)] if stop else [])]
        with contextlib.suppress(fitting.InterruptedByTestError):
            resumed.fit(callback.resume(dataset()), epochs=3, verbose=0, callbacks=callbacks)
        callback.close()
    assert models.parts(resumed) == models.parts(model)
