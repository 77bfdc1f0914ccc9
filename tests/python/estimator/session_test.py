# SPDX-License-Identifier: Apache-2.0
"""AdaptiveCheckpointHook with MonitoredTrainingSession: what is saved, restored, and when."""

import contextlib

import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from adaptcp_tf import errors
from tests.support import faults, processes, sessions
from tests.support.event_files import RATES, check_agreement, events
from tests.support.sessions import listed_in, make_hook, steps_of


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("strategy", ["adaptive", "incremental", "differential"])
def test_resumed_training_ends_with_the_bits_of_one_that_was_not_interrupted(
    tmp_path, strategy, shards
):
    whole = sessions.Training(shards=shards).run(None, 30)
    sessions.Training(shards=shards).run(make_hook(tmp_path, strategy=strategy), 17)
    second = make_hook(tmp_path, strategy=strategy)
    resumed = sessions.Training(shards=shards).run(second, 30)
    assert second.restored.step == 17
    assert second.restored.rows > 0
    assert resumed == whole


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_tables_may_be_on_other_devices_than_they_were(tmp_path, before, after):
    saved = sessions.Training(shards=before).run(make_hook(tmp_path), 17)
    assert sessions.Training(shards=after).run(make_hook(tmp_path), 17) == saved


def test_checkpoints_are_of_the_steps_asked_for_and_of_start_and_end(tmp_path):
    saving = make_hook(tmp_path, save_steps=4)
    sessions.Training().run(saving, 10)
    assert steps_of(tmp_path) == [0, 4, 8, 10]
    assert [report["step"] for report in saving.history] == [0, 4, 8, 10]
    assert [report["kind"] for report in saving.history][1:] == ["delta"] * 3


@pytest.mark.parametrize("buffered", [False, True])
def test_tensorboard_is_told_of_each_checkpoint(tmp_path, buffered):
    arguments = {"log_dir": str(tmp_path / "logs")}
    if buffered:
        arguments["local_dir"] = str(tmp_path / "buffer")
    first, second = (make_hook(tmp_path / "run", **arguments) for _ in range(2))
    sessions.Training(shards=2).run(first, 10)
    contents = sessions.Training(shards=2).run(second, 17)
    found = events(tmp_path / "logs")
    assert [one["step"] for one in first.history] == [0, 5, 10]
    assert [one["step"] for one in second.history] == [15, 17]
    # When training began there was no row to tell of.
    check_agreement(found, first.history[1:] + second.history)
    assert {step for step, tag in found if tag == RATES} == {0, 5, 10, 15, 17}
    # Nothing trains any more when the last one is told.
    assert found[17, RATES].num == len(contents["emb"])
    written = second.history[-1]["bytes"] if buffered else 0
    for tier in ("uploaded", "buffer"):
        assert found[17, f"adaptcp/tiers/{tier}_bytes"] >= written
        assert (found[17, f"adaptcp/tiers/{tier}_bytes"] > 0) == buffered


def test_exception_in_training_leaves_the_checkpoint_before(tmp_path):
    def fail_at_8(step, session):
        if step == 8:
            raise ValueError("no more")

    failing = make_hook(tmp_path)
    with pytest.raises(ValueError, match="no more"):
        sessions.Training().run(failing, 10, until=fail_at_8)
    resumed = sessions.Training().run(failing, 12)
    assert failing.restored.step == 5
    assert resumed == sessions.Training().run(None, 12)


class Maker(tf.compat.v1.train.SessionCreator):
    """Makes sessions again and again; TFRA lets a Scaffold do so only once."""

    def __init__(self):
        self._init = tf.compat.v1.global_variables_initializer()

    def create_session(self):
        session = tf.compat.v1.Session()
        session.run(self._init)
        return session


def test_session_that_broke_down_is_made_again_from_the_newest_checkpoint(tmp_path):
    """As after the loss of a worker: TensorFlow makes another session of the same graph."""
    broken = []

    class Breaks(tf.compat.v1.train.SessionRunHook):
        def before_run(self, run_context):
            if not broken and any(report["step"] == 5 for report in saving.history):
                broken.append(5)
                raise tf.errors.AbortedError(None, None, "a worker was lost")

    saving = make_hook(tmp_path)
    training = sessions.Training()
    steps = []
    with (
        training.graph.as_default(),
        tf.compat.v1.train.MonitoredSession(Maker(), hooks=[saving, Breaks()]) as session,
    ):
        while not steps or steps[-1] < 12:
            steps.append(training.step(session))
            saving.manager.wait()
        contents = session.run_step_fn(lambda step_context: training.contents(step_context.session))
    assert broken
    assert saving.restored.step == 5
    assert steps == list(range(1, 13))
    assert contents == sessions.Training().run(None, 12)


def test_works_where_eager_execution_is_turned_off(tmp_path):
    script = """if True:
        import sys, tensorflow as tf
        tf.compat.v1.disable_eager_execution()
        import adaptcp_tf as acp
        from tests.support import sessions
        def make_hook():
            return acp.estimator.AdaptiveCheckpointHook(
                sys.argv[1], save_steps=5, local_dir=sys.argv[1] + "-buffer")
        whole = sessions.Training().run(None, 12)
        sessions.Training().run(make_hook(), 7)
        second = make_hook()
        assert sessions.Training().run(second, 12) == whole
        assert second.restored.step == 7
    """
    processes.run(script, tmp_path / "run")


def test_others_who_save_the_session_save_both(tmp_path):
    """MonitoredTrainingSession has a hook of its own that saves, unless it is told not to."""
    tables, model = tmp_path / "tables", tmp_path / "model"
    sessions.Training().run(
        make_hook(tables, save_steps=6), 10, checkpoint_dir=str(model), save_checkpoint_steps=4
    )
    assert steps_of(tables) == listed_in(model) == [0, 4, 6, 8, 10]


def test_both_may_share_a_directory(tmp_path):
    sessions.Training().run(make_hook(tmp_path, max_to_keep=2), 10, checkpoint_dir=str(tmp_path))
    second = make_hook(tmp_path, max_to_keep=2)
    resumed = sessions.Training().run(second, 12, checkpoint_dir=str(tmp_path))
    assert second.restored.step == 10
    assert resumed == sessions.Training().run(None, 12)
    assert steps_of(tmp_path) == listed_in(tmp_path) == [10, 12]


def test_full_disk_leaves_neither_kind_of_checkpoint(tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk:
        model = tmp_path / "model"
        saving = make_hook(disk.path / "tables")

        def fill_at_9(step, session):
            if step == 9:
                saving.manager.wait()
                full.enter_context(disk.full())
            if step == 10:
                with pytest.raises(errors.CheckpointFailedError):
                    saving.manager.wait()
                full.close()

        full = contextlib.ExitStack()
        sessions.Training().run(saving, 15, checkpoint_dir=str(model), until=fill_at_9)
        assert steps_of(disk.path / "tables") == listed_in(model) == [0, 5, 15]
        assert not list(model.glob("model.ckpt-10.*"))


def test_checkpoints_pass_through_a_buffer(tmp_path):
    arguments = {"local_dir": str(tmp_path / "buffer")}
    sessions.Training().run(make_hook(tmp_path / "store", **arguments), 10)
    assert steps_of(tmp_path / "store")[-1] == 10
    elsewhere = make_hook(tmp_path / "store", local_dir=str(tmp_path / "other"))
    resumed = sessions.Training().run(elsewhere, 12)
    assert elsewhere.restored.step == 10
    assert resumed == sessions.Training().run(None, 12)


def test_listeners_find_what_was_saved(tmp_path):
    found = []

    class Listener(tf.compat.v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            found.append((global_step_value, steps_of(tmp_path)[-1]))
            return global_step_value == 10

    def never_beyond_10(step, session):
        if step >= 10:
            assert session.should_stop()

    with pytest.raises(RuntimeError, match="should_stop"):
        sessions.Training().run(
            make_hook(tmp_path, listeners=[Listener()]), 20, until=never_beyond_10
        )
    assert found == [(0, 0), (5, 5), (10, 10)]


def test_two_trainers_may_not_share_a_directory(tmp_path):
    first = make_hook(tmp_path)

    def another(step, session):
        if step == 3:
            with pytest.raises(errors.DirectoryLockedError):
                sessions.Training().run(make_hook(tmp_path), 5)

    sessions.Training().run(first, 5, until=another)


def test_untracked_tables_are_refused(tmp_path):
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        variable = de.get_variable("plain", dim=4)
        variable.upsert(tf.constant([1], tf.int64), tf.ones([1, 4]))
        with pytest.raises(errors.InvalidOptionError, match=r"plain.*TrackedTableCreator"):
            tf.compat.v1.train.MonitoredTrainingSession(hooks=[make_hook(tmp_path)])


def test_graph_without_global_step_is_refused(tmp_path):
    with tf.Graph().as_default():
        sessions.variable().upsert(tf.constant([1], tf.int64), tf.ones([1, sessions.DIM]))
        with pytest.raises(errors.InvalidOptionError, match="global step"):
            tf.compat.v1.train.MonitoredTrainingSession(hooks=[make_hook(tmp_path)])


@pytest.mark.parametrize(
    "arguments",
    [
        {"save_steps": 0},
        {"save_steps": 2.5},
        {"save_steps": True},
        {"save_steps": None, "save_secs": -1},
        {"save_steps": 5, "save_secs": 5},
        {"no_such_option": 1},
        {"strategy": "best"},
    ],
)
def test_wrong_arguments_are_refused(tmp_path, arguments):
    with pytest.raises(errors.InvalidOptionError):
        make_hook(tmp_path, **arguments)
