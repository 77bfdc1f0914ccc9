# SPDX-License-Identifier: Apache-2.0
"""AdaptiveCheckpointHook with tf.estimator: both kinds of checkpoints, evaluation, days."""

import contextlib
import re

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.manifest import Tiers
from tests.support import faults, sessions, tables
from tests.support.event_files import RATES, check_agreement, events


class Run:
    """An Estimator with its directories; each `train` is that of a new process.

    Args:
        folder: where both directories are.
        names: of the TFRA variables.
    """

    def __init__(self, folder, names=("emb",), **hook_arguments):
        self.directory = folder / "tables"
        self.model_dir = folder / "model"
        self._names = names
        self._arguments = {"when_busy": "wait", "max_to_keep": None, **hook_arguments}
        if not {"save_steps", "save_secs"} & set(hook_arguments):
            self._arguments["save_steps"] = 5

    @property
    def estimator(self):
        return tf.estimator.Estimator(
            sessions.model_fn, model_dir=str(self.model_dir), params={"names": self._names}
        )

    def hook(self, **arguments):
        return acp.estimator.AdaptiveCheckpointHook(
            str(self.directory), **{**self._arguments, **arguments}
        )

    def train(self, batches, seed=0, stream="", hooks=(), **arguments):
        """Trains on the stream's batches from where the newest checkpoint is; returns the hook."""
        hook = self.hook(**arguments)
        self.estimator.train(
            lambda: hook.resume(sessions.dataset(batches, seed), stream), hooks=[hook, *hooks]
        )
        return hook

    def restoring(self):
        return acp.estimator.RestoreHook(str(self.directory))

    def evaluate(self, **arguments):
        """Loss on the first batches."""
        return self.estimator.evaluate(
            lambda: sessions.dataset(10), hooks=[self.restoring()], **arguments
        )

    @property
    def steps(self):
        return Tiers(str(self.directory)).all_steps()

    @property
    def listed(self):
        """Steps that TensorFlow knows of."""
        state = tf.train.get_checkpoint_state(str(self.model_dir))
        assert state.model_checkpoint_path == state.all_model_checkpoint_paths[-1]
        return [int(path.rsplit("-", 1)[1]) for path in state.all_model_checkpoint_paths]

    @property
    def files(self):
        """Steps of which there are files of TensorFlow's."""
        found = [re.search(r"model\.ckpt-(\d+)", path.name) for path in self.model_dir.iterdir()]
        return sorted({int(match.group(1)) for match in found if match})


class At(tf.compat.v1.train.SessionRunHook):
    """Calls `action` once the training has reached a step."""

    def __init__(self, step, action):
        self._wanted = step
        self._action = action

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(tf.compat.v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        if int(run_context.session.run(tf.compat.v1.train.get_global_step())) == self._wanted:
            self._action()


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An Estimator that trained 12 steps and saved with TFRA and TensorFlow alone."""
    estimator = tf.estimator.Estimator(
        sessions.model_fn, model_dir=str(tmp_path_factory.mktemp("plain")), params={}
    )
    estimator.train(lambda: sessions.dataset(12))
    return estimator


def test_both_kinds_of_checkpoints_are_of_the_same_steps(run):
    run.train(12)
    assert run.steps == run.listed == run.files == [0, 5, 10, 12]


def test_retention_holds_for_both(run):
    run.train(12, max_to_keep=2)
    assert run.steps == run.listed == run.files == [10, 12]


def test_tensorflows_checkpoints_do_not_hold_the_tables(run, plain):
    run.train(12)
    own = {name for name, _ in tf.train.list_variables(str(run.model_dir))}
    with_tables = {name for name, _ in tf.train.list_variables(plain.model_dir)}
    tables = {name for name in with_tables if re.search("-(keys|values)$", name)}
    assert len(tables) == 6  # parameter and two slots
    assert own == with_tables - tables


def test_evaluation_and_prediction_see_the_rows_of_the_step(run, plain):
    run.train(12)
    expected = plain.evaluate(lambda: sessions.dataset(10))
    assert run.evaluate() == expected
    untrained = run.evaluate(checkpoint_path=str(run.model_dir / "model.ckpt-0"))
    assert untrained["loss"] != expected["loss"]
    predictions = [
        [row["output"] for row in estimator.predict(lambda: sessions.dataset(2), hooks=hooks)]
        for estimator, hooks in ((run.estimator, [run.restoring()]), (plain, []))
    ]
    np.testing.assert_array_equal(*predictions)


@pytest.mark.parametrize("beside_its_own", [True, False])
def test_tensorboard_is_told_of_each_checkpoint(run, tmp_path, beside_its_own):
    """In a folder of its own, or the one where the Estimator writes its loss."""
    log_dir = run.model_dir if beside_its_own else tmp_path / "logs"
    first = run.train(7, log_dir=str(log_dir))
    second = run.train(12, log_dir=str(log_dir))
    found = events(log_dir)
    assert [one["step"] for one in first.history] == [0, 5, 7]
    assert [one["step"] for one in second.history] == [12]
    # When training began there was no row to tell of.
    check_agreement(found, first.history[1:] + second.history)
    assert {step for step, tag in found if tag == RATES} == {0, 5, 7, 12}
    # Nothing trains any more when the last one is told.
    assert found[12, RATES].num == acp.export.npz_files(run.directory, tmp_path / "rows").rows
    assert any(tag.startswith("loss") for _, tag in found) == beside_its_own
    if not beside_its_own:
        assert {tag for _, tag in found if not tag.startswith("adaptcp/")} == set()


def test_evaluation_without_the_hook_fails(run):
    run.train(5)
    with pytest.raises(tf.errors.NotFoundError, match="emb"):
        run.estimator.evaluate(lambda: sessions.dataset(10))


def test_evaluation_of_a_step_without_rows_fails(run):
    run.train(5)
    (manifest,) = run.directory.glob("manifest-*5.json")
    manifest.unlink()
    with pytest.raises(errors.CheckpointNotFoundError, match="step 5"):
        run.evaluate()


def test_train_and_evaluate_evaluates_every_checkpoint(run):
    evaluated = []

    class Note(tf.compat.v1.train.SessionRunHook):
        def end(self, session):
            evaluated.append(int(session.run(tf.compat.v1.train.get_global_step())))

    hook = run.hook()
    result, _ = tf.estimator.train_and_evaluate(
        run.estimator,
        tf.estimator.TrainSpec(
            lambda: hook.resume(sessions.dataset(12)), max_steps=12, hooks=[hook]
        ),
        tf.estimator.EvalSpec(
            lambda: sessions.dataset(10), hooks=[run.restoring(), Note()], throttle_secs=0
        ),
    )
    assert evaluated == [5, 10, 12]
    assert result == run.evaluate()


def test_saves_by_seconds(run):
    run.train(40, save_secs=0.01, save_steps=None)
    assert len(run.steps) > 3
    assert run.steps == run.listed


def test_second_day_goes_on_from_the_first(run, tmp_path):
    """Neither day is trained on twice, whatever is restarted."""
    run.train(7, seed=1, stream="day 1")
    run.train(7, seed=1, stream="day 1")
    assert run.steps[-1] == 7
    run.train(6, seed=2, stream="day 2")
    second = run.train(6, seed=2, stream="day 2")
    assert run.steps[-1] == 13
    assert second.restored.step == 13

    other = Run(tmp_path / "other")
    hook = other.hook()
    other.estimator.train(
        lambda: sessions.dataset(7, 1).concatenate(sessions.dataset(6, 2)), hooks=[hook]
    )
    assert run.evaluate() == other.evaluate()


def test_training_in_one_process_again_goes_on(run):
    hook = run.hook()
    for steps in (4, 8):
        run.estimator.train(
            lambda: hook.resume(sessions.dataset(12)), hooks=[hook], max_steps=steps
        )
    assert run.steps[-1] == 8
    hook.close()


def test_killed_between_the_two_commits_goes_on_from_the_newest(run):
    """TensorFlow's list is written after the manifest."""
    run.train(10)
    state = run.model_dir / "checkpoint"
    listed = run.listed
    tf.compat.v1.train.update_checkpoint_state(
        str(run.model_dir), "model.ckpt-5", ["model.ckpt-0", "model.ckpt-5"]
    )
    assert run.train(12).restored.step == 10
    assert run.listed == [*listed, 12]
    assert state.exists()


def test_killed_before_the_manifest_leaves_nothing_of_the_step(run):
    run.train(10)
    run.directory.joinpath("manifest-000000000010.json")
    (manifest,) = run.directory.glob("manifest-*10.json")
    manifest.unlink()
    tf.compat.v1.train.update_checkpoint_state(
        str(run.model_dir), "model.ckpt-5", ["model.ckpt-0", "model.ckpt-5"]
    )
    assert run.train(7).restored.step == 5
    assert run.files == run.listed == run.steps == [0, 5, 7]


def test_step_that_only_tensorflow_has_is_rolled_back(run, caplog):
    run.train(10)
    (manifest,) = run.directory.glob("manifest-*10.json")
    manifest.unlink()
    assert run.listed[-1] == 10
    assert run.train(7).restored.step == 5
    assert run.listed == run.steps == [0, 5, 7]
    assert "[10]" in caplog.text


def test_checkpoint_that_tensorflow_lost_is_written_again(run):
    run.train(7)
    expected = run.evaluate()
    for path in run.model_dir.iterdir():
        if path.is_file():
            path.unlink()
    run.train(7)
    assert run.listed == [7]
    assert run.evaluate() == expected


def test_trained_variables_without_rows_are_refused(tmp_path, plain):
    hook = acp.estimator.AdaptiveCheckpointHook(str(tmp_path), save_steps=5)
    with pytest.raises(errors.IncompatibleModelError, match="step 12"):
        plain.train(lambda: sessions.dataset(12), hooks=[hook])
    # The directory is free again.
    acp.CheckpointManager(str(tmp_path), variables=[tables.make_variable()]).close()


def test_last_checkpoint_that_fails_fails_the_training_and_its_listeners_are_of_no_other(tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk, contextlib.ExitStack() as full:
        directory = disk.path / "tables"
        hook = sessions.make_hook(directory)
        estimator = Run(tmp_path).estimator
        notes = sessions.Notes()
        fills = At(8, lambda: full.enter_context(disk.full()))
        with pytest.raises(errors.CheckpointFailedError, match=r"step 8.*Received: 5.*Cause: .+"):
            estimator.train(
                lambda: hook.resume(sessions.dataset(8)),
                hooks=[hook, fills],
                saving_listeners=[notes],
            )
        full.close()
        assert notes.steps == [0, 5]
        assert sessions.is_free(directory)

        estimator.train(lambda: hook.resume(sessions.dataset(9)), hooks=[hook])
        assert hook.restored.step == 5
        assert sessions.steps_of(directory) == [0, 5, 9]
        assert notes.steps == [0, 5]
