# SPDX-License-Identifier: Apache-2.0
"""Keras' own callbacks beside ours: they work and change nothing, or are refused."""

import pytest
import tensorflow as tf

from adaptcp_tf import errors
from tests.support import fitting, models
from tests.support.fitting import BATCHES


def dataset():
    return models.dataset(BATCHES)


REFUSED = {
    "backup": lambda folder: tf.keras.callbacks.BackupAndRestore(str(folder / "backup")),
    "best_weights": lambda folder: tf.keras.callbacks.EarlyStopping(
        "loss", restore_best_weights=True
    ),
}


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("backup", "BackupAndRestore cannot be used beside AdaptiveCheckpoint.*Leave Backup"),
        ("best_weights", r"EarlyStopping\(restore_best_weights=True\) cannot.*manager.restore"),
    ],
)
def test_callbacks_that_restore_by_themselves_are_refused(tmp_path, name, message, ours_first):
    other = REFUSED[name](tmp_path)
    with pytest.raises(errors.InvalidOptionError, match=message):
        fitting.start(tmp_path / "ours", dataset, beside=[other], ours_first=ours_first)
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_refused_training_goes_on_without_the_other(tmp_path, ours_first):
    fitting.start(tmp_path / "ours", dataset, stop_after=10)
    with pytest.raises(errors.InvalidOptionError):
        other = REFUSED["backup"](tmp_path)
        fitting.start(tmp_path / "ours", dataset, beside=[other], ours_first=ours_first)
    resumed = fitting.start(tmp_path / "ours", dataset)
    assert resumed.parts == fitting.plain(dataset).parts


def weights_only(folder):
    return tf.keras.callbacks.ModelCheckpoint(
        str(folder / "weights-{epoch}"), save_weights_only=True, save_freq=2
    )


def whole_models(folder):
    return tf.keras.callbacks.ModelCheckpoint(str(folder / "model-{epoch}"), save_freq="epoch")


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("make", [weights_only, whole_models])
def test_model_checkpoint_changes_nothing(tmp_path, make, ours_first):
    beside = {"ours_first": ours_first, "strategy": "adaptive", "hot_threshold": 0.5}
    for stop in (10, None):
        (tmp_path / "theirs").mkdir(exist_ok=True)
        resumed = fitting.start(
            tmp_path / "ours",
            dataset,
            stop_after=stop,
            beside=[make(tmp_path / "theirs")],
            **beside,
        )
    assert resumed.callback.restored.step == 9
    assert list((tmp_path / "theirs").iterdir())
    assert resumed.parts == fitting.plain(dataset).parts


def test_early_stopping_ends_the_training_with_a_checkpoint(tmp_path):
    stop = tf.keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1)
    stopped = fitting.start(tmp_path, dataset, beside=[stop], epochs=5)
    assert len(stopped.logs) == 2
    assert stopped.callback.history[-1]["step"] == 2 * BATCHES
    assert stopped.parts == fitting.plain(dataset, epochs=2).parts


def test_best_epoch_can_be_restored_as_the_refusal_says(tmp_path):
    best = fitting.plain(dataset, epochs=1).parts
    model = models.build()
    callback = fitting.make_callback(tmp_path, save_freq="epoch", max_to_keep=None)
    stop = tf.keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1)
    model.fit(callback.resume(dataset()), epochs=5, callbacks=[callback, stop], verbose=0)
    callback.wait()
    assert models.parts(model) != best
    callback.manager.restore(BATCHES)
    callback.close()
    restored = {name: value for name, value in models.parts(model).items() if "metric" not in name}
    assert restored == {name: value for name, value in best.items() if "metric" not in name}
