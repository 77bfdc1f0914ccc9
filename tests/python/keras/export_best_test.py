# SPDX-License-Identifier: Apache-2.0
"""`fit` exports the model after its best epochs, and knows them again after a restart."""

import shutil

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import models, serving


def fit(directory, scores, best, build=models.build, **options):
    """Trains one epoch a score, which its logs then have; returns the model and the callback."""
    model = build()
    callback = acp.keras.AdaptiveCheckpoint(
        str(directory / "run"), save_freq="epoch", when_busy="wait", export_best=best, **options
    )

    class Score(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["score"] = scores[epoch]

    dataset = callback.resume(models.dataset(2))
    callbacks = [Score(), callback]
    model.fit(dataset, epochs=len(scores), callbacks=callbacks, verbose=0)
    callback.close()
    return model


def test_best_epochs_are_exported_and_serve(tmp_path):
    best = acp.keras.ExportBest(tmp_path / "best", monitor="score", mode="max")
    model = fit(tmp_path, [0.1, 0.3, 0.2, 0.4], best)
    assert best.exports() == {8: 0.4, 4: 0.3, 2: 0.1}
    ids = models.samples(3)[0]["ids"]
    (answer,) = serving.serve((tmp_path / "best" / "8", "serving_default", {"ids": ids}))
    expected = tf.function(model)({"ids": tf.constant(ids)}, training=False).numpy()
    assert list(answer.values()) == [expected.tobytes()]


def test_restarted_training_knows_what_was_best(tmp_path):
    best = acp.keras.ExportBest(tmp_path / "best", monitor="score", max_to_keep=2)
    fit(tmp_path, [5.0, 3.0], best)
    assert best.exports() == {4: 3.0, 2: 5.0}
    again = acp.keras.ExportBest(tmp_path / "best", monitor="score", max_to_keep=2)
    fit(tmp_path, [5.0, 3.0, 4.0, 2.0], again)
    assert again.exports() == {8: 2.0, 4: 3.0}
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == ["4", "8"]


def test_export_that_was_cut_off_does_not_count_and_is_made_again(tmp_path):
    best = acp.keras.ExportBest(tmp_path / "best", monitor="score", mode="max")
    fit(tmp_path, [0.5], best)
    # As a copy to an object store that was killed leaves it: its model goes last.
    (tmp_path / "best" / "2" / "saved_model.pb").unlink()
    assert best.exports() == {}
    shutil.rmtree(tmp_path / "run")
    fit(tmp_path, [0.4], best)
    assert best.exports() == {2: 0.4}


def test_model_that_tensorflow_cannot_export_is_a_warning(tmp_path, caplog):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="ids")])
    def refuse(ids):
        raise ValueError("nothing to export")

    best = acp.keras.ExportBest(tmp_path / "best", monitor="score", signatures=refuse)
    fit(tmp_path, [0.5, 0.4], best)
    assert caplog.text.count("nothing exported at step") == 2 and best.exports() == {}


def test_training_goes_on_when_nothing_can_be_exported(tmp_path, caplog):
    missing = acp.keras.ExportBest(tmp_path / "best", monitor="val_auc")
    fit(tmp_path, [1.0], missing)
    assert "'val_auc' is None" in caplog.text
    (tmp_path / "best" / "4").mkdir(parents=True)
    (tmp_path / "best" / "4" / "theirs").write_bytes(b"theirs")
    fit(tmp_path, [1.0, float("nan")], acp.keras.ExportBest(tmp_path / "best", monitor="score"))
    assert "'score' is nan" in caplog.text
    fit(tmp_path / "other", [2.0, 1.0], acp.keras.ExportBest(tmp_path / "best", monitor="score"))
    assert "not empty" in caplog.text
    assert (tmp_path / "best" / "4" / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("options", [{"mode": "auto"}, {"max_to_keep": 0}])
def test_wrong_options_are_refused(tmp_path, options):
    with pytest.raises(errors.InvalidOptionError, match=next(iter(options))):
        acp.keras.ExportBest(tmp_path, **options)
