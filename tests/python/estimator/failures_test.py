# SPDX-License-Identifier: Apache-2.0
"""AdaptiveCheckpointHook when saves fail, or training does: what is told, kept and resumed."""

import contextlib
import shutil
import time

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.subject import ModelSubject
from tests.support import faults, sessions, tables
from tests.support.sessions import Notes, is_free, listed_in, make_hook, steps_of


def test_last_checkpoint_that_fails_fails_the_training_and_lets_go_of_all(tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk, contextlib.ExitStack() as full:
        directory = disk.path / "tables"

        def fill_at_8(step, session):
            if step == 8:
                full.enter_context(disk.full())

        notes = Notes()
        hook = make_hook(directory, listeners=[notes])
        with pytest.raises(errors.CheckpointFailedError, match=r"step 8.*Received: 5.*Cause: .+"):
            sessions.Training().run(hook, 8, until=fill_at_8)
        full.close()
        assert notes.steps == [0, 5]
        assert is_free(directory)

        sessions.Training().run(hook, 9)
        assert hook.restored.step == 5
        assert steps_of(directory) == [0, 5, 9]
        # A training also tells of the step where it starts.
        assert notes.steps == [0, 5, 5, 9]


def test_step_is_saved_though_old_checkpoints_could_not_be_deleted(tmp_path, caplog):
    def spoil_at_9(step, session):
        if step == 9:
            (segment,) = (tmp_path / "segments").rglob("g0-s0of1-*.acp")
            # A directory cannot be unlinked.
            segment.unlink()
            segment.mkdir()

    notes = Notes()
    hook = make_hook(tmp_path, listeners=[notes], max_to_keep=1, strategy="full")
    sessions.Training().run(hook, 10, until=spoil_at_9)
    assert notes.steps == [0, 5, 10]
    assert steps_of(tmp_path) == [10]
    assert "Step 10 is saved, but old checkpoints could not be deleted" in caplog.text


def test_training_goes_on_when_what_is_left_of_a_failed_save_cannot_be_deleted(tmp_path, caplog):
    directory, model = tmp_path / "tables", tmp_path / "model"

    def spoil_at_9(step, session):
        if step == 9:
            (model / "model.ckpt-10.index").mkdir()

    sessions.Training().run(make_hook(directory), 12, checkpoint_dir=str(model), until=spoil_at_9)
    assert steps_of(directory) == listed_in(model) == [0, 5, 12]
    assert "step 10 is not saved" in caplog.text
    assert "could the checkpoints be put in order" in caplog.text


def test_resume_waits_for_what_the_training_before_still_saves(tmp_path):
    def fail_at_10(step, session):
        if step == 10:
            raise ValueError("no more")

    hook = make_hook(tmp_path)
    hook.resume(sessions.dataset(12))
    with pytest.raises(ValueError, match="no more"):
        sessions.Training().run(hook, 12, until=fail_at_10)
    rest = hook.resume(sessions.dataset(12))
    assert steps_of(tmp_path)[-1] == 10
    assert int(rest.cardinality()) == 2
    assert is_free(tmp_path)
    sessions.Training().run(hook, 12)
    assert hook.restored.step == 10


def test_input_of_another_step_than_the_session_starts_at_is_refused(tmp_path):
    hook = make_hook(tmp_path)
    hook.resume(sessions.dataset(12), "day 1")
    sessions.Training().run(make_hook(tmp_path), 7)
    with pytest.raises(errors.InvalidOptionError, match=r"starts at step 7.*'day 1'.*step 0"):
        sessions.Training().run(hook, 12)
    hook.resume(sessions.dataset(12), "day 1")
    sessions.Training().run(hook, 12)
    assert steps_of(tmp_path)[-1] == 12


def test_what_follows_the_checkpoints_knows_the_new_one_before_the_old_one_is_gone(tmp_path):
    seen = []

    class Follower(ModelSubject):
        def save_ended(self, all_steps):
            seen.append(all_steps())

    variable = tables.make_variable()
    manager = acp.CheckpointManager.of_subject(
        str(tmp_path), Follower(None, None, [variable]), acp.CheckpointOptions(max_to_keep=1)
    )
    for step in (1, 2):
        tables.fill(variable, range(10), seed=step)
        manager.save(step)
        manager.wait()
    manager.close()
    assert seen == [[1], [1], [1, 2], [2]]


class Calls(tf.compat.v1.train.CheckpointSaverListener):
    """Calls `before(n)` before the n-th save, from 1, of a step."""

    def __init__(self, step, before):
        self._step = step
        self._before = before
        self.saves = 0

    def before_save(self, session, global_step_value):
        if global_step_value == self._step:
            self.saves += 1
            self._before(self.saves)


def test_last_save_that_fails_is_tried_once_more(tmp_path, caplog):
    with faults.small_disk(tmp_path / "disk") as disk, contextlib.ExitStack() as full:
        directory = disk.path / "tables"

        def before(save):
            if save == 1:
                full.enter_context(disk.full())
            else:
                full.close()

        tries = Calls(8, before)
        whole = sessions.Training().run(make_hook(directory, listeners=[tries]), 8)
        assert tries.saves == 2
        assert steps_of(directory) == [0, 5, 8]
        assert "step 8 is not saved" in caplog.text
        hook = make_hook(directory)
        assert sessions.Training().run(hook, 8) == whole
        assert hook.restored.step == 8


def test_save_that_failed_behind_the_last_step_is_made_up_for(tmp_path):
    """It was due at the last step, so nothing was trained after it."""
    with faults.small_disk(tmp_path / "disk") as disk, contextlib.ExitStack() as full:
        hook = make_hook(disk.path / "tables")

        def fail_at_10(step, session):
            if step == 9:
                hook.manager.wait()
                full.enter_context(disk.full())
            if step == 10:
                while hook.manager.busy:
                    time.sleep(0.01)
                full.close()

        sessions.Training().run(hook, 10, until=fail_at_10)
        assert steps_of(disk.path / "tables") == [0, 5, 10]


def test_last_save_stands_though_old_checkpoints_could_not_be_deleted(tmp_path, caplog):
    def spoil_at_11(step, session):
        if step == 11:
            hook.manager.wait()
            (segment,) = (tmp_path / "segments").rglob("g0-s0of1-*.acp")
            # A directory cannot be unlinked.
            segment.unlink()
            segment.mkdir()

    hook = make_hook(tmp_path, max_to_keep=1, strategy="full")
    sessions.Training().run(hook, 12, until=spoil_at_11)
    assert steps_of(tmp_path) == [12]
    assert "Step 12 is saved, but old checkpoints could not be deleted" in caplog.text


def test_last_checkpoint_that_cannot_be_uploaded_fails_the_training(tmp_path):
    def block_at_9(step, session):
        if step == 9:
            hook.manager.wait()
            shutil.rmtree(tmp_path / "run" / "segments")
            (tmp_path / "run" / "segments").write_text("in the way")

    buffer = tmp_path / "buffer"
    hook = make_hook(tmp_path / "run", local_dir=str(buffer), upload_patience_secs=0)
    with pytest.raises(
        errors.CheckpointFailedError, match=r"step 10, is in the buffer.*Received: 5.*Cause: .*segm"
    ):
        sessions.Training().run(hook, 10, until=block_at_9)
    assert is_free(tmp_path / "run")
    assert steps_of(buffer)[-1] == 10


def test_training_goes_on_when_tensorflows_lost_checkpoint_cannot_be_written_again(
    tmp_path, caplog
):
    with faults.small_disk(tmp_path / "disk") as disk, contextlib.ExitStack() as full:
        tables_dir, model = tmp_path / "tables", disk.path / "model"
        sessions.Training().run(make_hook(tables_dir), 5, checkpoint_dir=str(model))
        for file in model.glob("model.ckpt-5.*"):
            file.unlink()

        class FullAtFirst(tf.compat.v1.train.SessionRunHook):
            def after_create_session(self, session, coord):
                full.enter_context(disk.full())

            def after_run(self, run_context, run_values):
                full.close()

        hook = make_hook(tables_dir)
        training = sessions.Training()
        with (
            training.graph.as_default(),
            tf.compat.v1.train.MonitoredTrainingSession(
                hooks=[FullAtFirst(), hook],
                checkpoint_dir=str(model),
                save_checkpoint_secs=None,
                save_summaries_steps=None,
            ) as session,
        ):
            while training.step(session) < 10:
                pass
        assert hook.restored.step == 5
        assert "TensorFlow's checkpoint of step 5 is not written" in caplog.text
        assert steps_of(tables_dir) == [0, 5, 10]
        assert listed_in(model) == [0, 10]


def test_list_that_could_not_be_written_is_written_with_the_next_save(tmp_path, caplog):
    model = tmp_path / "model"

    def spoil(step, session):
        if step == 4:
            hook.manager.wait()
            (model / "checkpoint").rename(tmp_path / "aside")
            (model / "checkpoint").mkdir()
        if step == 6:
            with pytest.raises(errors.CheckpointFailedError, match="could not be brought up"):
                hook.manager.wait()
            (model / "checkpoint").rmdir()

    hook = make_hook(tmp_path / "tables", save_steps=5)
    sessions.Training().run(hook, 6, checkpoint_dir=str(model), until=spoil)
    assert steps_of(tmp_path / "tables") == listed_in(model) == [0, 5, 6]


def test_list_that_cannot_be_written_at_the_end_fails_the_training(tmp_path):
    model = tmp_path / "model"

    def spoil_at_9(step, session):
        if step == 9:
            hook.manager.wait()
            (model / "checkpoint").rename(tmp_path / "aside")
            (model / "checkpoint").mkdir()

    hook = make_hook(tmp_path / "tables")
    with pytest.raises(
        errors.CheckpointFailedError, match=r"step 10, is saved, but not TensorFlow's.*model.*Cause"
    ):
        sessions.Training().run(hook, 10, checkpoint_dir=str(model), until=spoil_at_9)
    assert steps_of(tmp_path / "tables") == [0, 5, 10]
    (model / "checkpoint").rmdir()
    (tmp_path / "aside").rename(model / "checkpoint")
    again = make_hook(tmp_path / "tables")
    sessions.Training().run(again, 10, checkpoint_dir=str(model))
    assert again.restored.step == 10
    assert listed_in(model) == [0, 5, 10]
