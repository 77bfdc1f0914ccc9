# SPDX-License-Identifier: Apache-2.0
"""AdaptiveCheckpointHook when saves fail, or training does: what is told, kept and resumed."""

import contextlib

import pytest

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
