# SPDX-License-Identifier: Apache-2.0
"""What the callback accepts, when it saves, what it says, and that it changes nothing else."""

import logging

import pytest

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import faults, fitting, models
from tests.support.fitting import BATCHES


def dataset():
    return models.dataset(BATCHES)


def make(directory, **options):
    options = {"save_freq": 3, "when_busy": "wait", **options}
    return acp.keras.AdaptiveCheckpoint(str(directory), **options)


def fit(callback, model=None, data=None, epochs=1, **arguments):
    model = model or models.build()
    data = callback.resume(data or dataset())
    model.fit(data, epochs=epochs, callbacks=[callback], verbose=0, **arguments)
    return model


def steps(callback):
    return [report["step"] for report in callback.history]


# Arguments.


@pytest.mark.parametrize("save_freq", [0, -1, 2.5, True, "batch", None])
def test_invalid_save_freq_is_refused(tmp_path, save_freq):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value for save_freq. Received: "):
        make(tmp_path, save_freq=save_freq)


def test_unknown_argument_is_refused_and_known_ones_are_listed(tmp_path):
    with pytest.raises(errors.InvalidOptionError, match=r"\['keep'\].*max_to_keep"):
        make(tmp_path, keep=3)


def test_options_are_checked_at_once(tmp_path):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value for strategy"):
        make(tmp_path, strategy="x")
    assert list(tmp_path.iterdir()) == []


def test_manager_is_made_by_fit(tmp_path):
    callback = make(tmp_path)
    with pytest.raises(errors.InvalidOptionError, match="no manager yet. Call fit"):
        callback.manager.save(1)
    assert callback.history == []
    callback.wait()
    callback.close()


# When it saves.


@pytest.mark.parametrize(
    ("save_freq", "expected"),
    [(3, [3, 6, 9, 12, 14]), (7, [7, 14]), (100, [14]), ("epoch", [7, 14]), (1, range(1, 15))],
)
def test_saves_every_so_many_batches_and_at_the_end(tmp_path, save_freq, expected):
    callback = make(tmp_path, save_freq=save_freq)
    fit(callback, epochs=2)
    callback.wait()
    assert steps(callback) == list(expected)
    assert CheckpointStore(tmp_path).all_steps() == list(expected)[-3:]
    callback.close()


class EverySoManySeconds(acp.policies.Incremental):
    """Says how long to train between two checkpoints."""

    def __init__(self, secs):
        super().__init__()
        self.secs = secs

    def interval_secs(self):
        return self.secs


@pytest.mark.parametrize(
    ("secs", "expected"), [(1e-9, range(1, BATCHES + 1)), (1e9, [BATCHES]), (None, [BATCHES])]
)
def test_auto_saves_when_the_policys_seconds_have_passed(tmp_path, secs, expected):
    callback = make(tmp_path, save_freq="auto", strategy=EverySoManySeconds(secs))
    fit(callback)
    callback.wait()
    assert steps(callback) == list(expected)
    callback.close()


def test_auto_with_adaptive_learns_how_often_to_save(tmp_path):
    callback = make(tmp_path, save_freq="auto", mean_secs_between_failures=3600.0)
    fit(callback)
    callback.wait()
    assert 1 <= callback.manager.interval_secs() <= 3600
    assert CheckpointStore(tmp_path).read(BATCHES).policy["interval_secs"] is None  # as decided
    callback.close()


def test_auto_needs_a_strategy_that_knows_how_often(tmp_path):
    with pytest.raises(errors.InvalidOptionError, match="'auto' with the strategy 'full'"):
        make(tmp_path, save_freq="auto", strategy="full")


def test_does_not_save_at_the_end_if_told_so(tmp_path):
    callback = make(tmp_path, save_at_end=False)
    fit(callback)
    callback.wait()
    assert steps(callback) == [3, 6]
    callback.close()


def test_several_steps_in_one_call_save_when_they_pass_the_mark(tmp_path):
    callback = make(tmp_path, save_freq=5)
    fit(callback, models.build(steps_per_execution=3), models.dataset(12))
    callback.wait()
    assert steps(callback) == [6, 12]
    callback.close()


def test_checkpoints_do_not_change_the_training(tmp_path):
    plain = fitting.plain(dataset)
    saved = fitting.start(tmp_path, dataset, save_freq=1)
    assert (saved.parts, saved.logs) == (plain.parts, plain.logs)


def test_history_tells_of_every_checkpoint(tmp_path):
    callback = make(tmp_path)
    fit(callback)
    callback.wait()
    assert set(callback.history[0]) == {
        *("step", "kind", "wall_time", "hot_threshold", "rows_hot", "rows_cold", "tombstones"),
        *("rows_saved_on_update", "rows_drained", "rows_prefetched"),
        *("bytes", "bytes_base", "bytes_increment", "bytes_differential", "bytes_dense"),
        *("chain_length", "restore_bytes", "rho"),
        *("stall_ms", "room_wait_ms", "seconds_to_durable"),
        "seconds_to_uploaded",
    }
    assert [report["kind"] for report in callback.history] == ["base", "delta", "delta"]
    callback.close()


# More than one fit.


def test_second_fit_goes_on_counting(tmp_path):
    callback = make(tmp_path)
    model = fit(callback)
    fit(callback, model)
    callback.wait()
    assert steps(callback) == [3, 6, 7, 9, 12, 14]
    callback.close()

    plain = models.build()
    for _ in range(2):
        plain.fit(dataset(), verbose=0)
    assert models.parts(model) == models.parts(plain)


def test_second_fit_of_a_resumed_training_skips_nothing(tmp_path):
    fitting.start(tmp_path, dataset, stop_after=4, epochs=1)
    callback = make(tmp_path)
    model = fit(callback)
    fit(callback, model)
    callback.wait()
    assert steps(callback)[-1] == 2 * BATCHES
    callback.close()


def test_model_that_was_trained_before_is_tracked_from_then_on(tmp_path):
    """Its traced step knows nothing of trackers, so it is traced again."""
    model = models.build()
    model.fit(dataset(), verbose=0)
    callback = make(tmp_path)
    fit(callback, model)
    callback.wait()
    callback.close()
    expected = models.parts(model)
    assert fitting.start(tmp_path, dataset, epochs=1).parts == expected


def test_fit_without_the_callback_in_between_is_noticed_or_tracked(tmp_path):
    callback = make(tmp_path)
    model = fit(callback)
    model.fit(models.dataset(3, seed=9), verbose=0)
    fit(callback, model)
    callback.wait()
    callback.close()
    expected = models.parts(model)
    assert fitting.start(tmp_path, dataset, epochs=1).parts == expected


def test_evaluate_and_predict_in_between_change_nothing(tmp_path):
    callback = make(tmp_path)
    model = fit(callback)
    callback.wait()
    expected = models.parts(model)
    model.evaluate(models.dataset(2, seed=8), verbose=0)
    model.predict(models.dataset(2, seed=7), verbose=0)
    tables_of = [name for name in expected if name.startswith("table")]
    assert tables_of and all(models.parts(model)[n] == expected[n] for n in tables_of)
    callback.close()


# What it restores.


def test_restored_tells_what_was_restored(tmp_path):
    first = fitting.start(tmp_path, dataset, stop_after=4)
    assert first.callback.restored is None
    again = fitting.start(tmp_path, dataset)
    report = again.callback.restored
    assert (report.step, report.position.batch, report.tables_without_rows) == (3, 3, ())
    assert report.rows > 0 and report.bytes > 0


def test_fit_that_would_repeat_samples_is_refused(tmp_path):
    """The checkpoint is of the middle of an epoch, and the dataset is the whole one."""
    fitting.start(tmp_path, dataset, stop_after=4)
    callback = make(tmp_path)
    with pytest.raises(errors.InvalidOptionError, match="after batch 3 of an epoch.*resume"):
        models.build().fit(dataset(), callbacks=[callback], verbose=0)
    callback.close()


def test_arrays_can_be_resumed_at_the_ends_of_epochs(tmp_path):
    inputs, labels = models.samples(BATCHES)

    def train(epochs):
        model, callback = models.build(), make(tmp_path, save_freq="epoch")
        arguments = {"batch_size": models.BATCH, "shuffle": False, "verbose": 0}
        model.fit(inputs, labels, epochs=epochs, callbacks=[callback], **arguments)
        callback.close()
        return models.parts(model)

    train(2)
    assert train(3) == fitting.plain(dataset).parts


def test_new_training_may_not_mix_with_an_old_one(tmp_path):
    fitting.start(tmp_path, dataset, epochs=1)
    with pytest.raises(errors.InvalidOptionError, match=f"restore=False, but .*step {BATCHES}"):
        fit(make(tmp_path, restore=False))


def test_checkpoint_of_a_custom_loop_has_no_position(tmp_path):
    manager = acp.CheckpointManager(str(tmp_path), model=models.build())
    manager.save(5)
    manager.close()
    with pytest.raises(
        errors.InvalidOptionError, match="step 5 .* does not say where in the input"
    ):
        fit(make(tmp_path))


def test_checkpoint_of_another_model_is_refused(tmp_path):
    fitting.start(tmp_path, dataset, stop_after=4)
    callback = make(tmp_path)
    with pytest.raises(errors.IncompatibleModelError, match="emb-parameter"):
        fit(callback, models.build("nested"))
    callback.close()


def test_damaged_checkpoint_is_refused(tmp_path):
    fitting.start(tmp_path, dataset, stop_after=4)
    (path,) = (tmp_path / "segments").glob("*/*.acp")
    faults.truncate(path, -1)
    callback = make(tmp_path)
    with pytest.raises(errors.CorruptCheckpointError, match=path.name):
        fit(callback)
    callback.close()


def test_second_trainer_of_a_directory_is_refused(tmp_path):
    callback = make(tmp_path)
    fit(callback)
    with pytest.raises(errors.DirectoryLockedError):
        fit(make(tmp_path))
    callback.close()
    fit(make(tmp_path), epochs=2)


# What fails in the background.


def test_full_disk_warns_while_training_goes_on_and_raises_in_wait(tmp_path, caplog):
    with faults.small_disk(tmp_path / "disk") as disk:
        callback = make(disk.path / "run", save_freq=1)
        model = fit(callback)
        callback.wait()
        with disk.full(), caplog.at_level(logging.WARNING, "adaptcp_tf"):
            fit(callback, model)
            with pytest.raises(errors.CheckpointFailedError, match=f"step {2 * BATCHES} "):
                callback.wait()
        messages = [record.getMessage() for record in caplog.records]
        for step in range(BATCHES + 1, 2 * BATCHES):
            assert any(f"checkpoint of step {step} " in message for message in messages)
        assert steps(callback)[-1] == BATCHES

        fit(callback, model)  # there is room again
        callback.wait()
        assert steps(callback)[BATCHES] == 2 * BATCHES + 1
        callback.close()


def test_progress_bar_is_shown_when_asked_for(tmp_path, capsys):
    fitting.start(tmp_path, dataset, stop_after=4)
    fitting.start(tmp_path, dataset, progress=True)
    shown = capsys.readouterr().err
    assert "restoring step 3" in shown and "rows" in shown and "MB" in shown
    fitting.start(tmp_path, dataset, epochs=4)
    assert "restoring" not in capsys.readouterr().err  # not a terminal


def test_keras_need_not_copy_logs_for_the_callback(tmp_path):
    assert make(tmp_path)._supports_tf_logs is True
