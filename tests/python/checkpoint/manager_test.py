# SPDX-License-Identifier: Apache-2.0
"""The life of a manager: what it saves under which step, whom it shuts out, and when it lets go."""

import gc
import logging
import threading
import time

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.policy import Incremental
from tests.support import models, tables


@pytest.fixture
def variable():
    return tables.make_variable()


@pytest.fixture
def manager(tmp_path, variable):
    manager = tables.manage(tmp_path / "run", variable, strategy="incremental")
    yield manager
    manager.close()


class HeldBack(Incremental):
    """A strategy whose saves do not end before `release` is set."""

    def __init__(self):
        super().__init__()
        self.release = threading.Event()

    def observe(self, report):
        super().observe(report)
        assert self.release.wait(300)


@pytest.fixture
def held_back(request):
    policy = HeldBack()
    request.addfinalizer(policy.release.set)
    return policy


# Steps.


def test_new_directory_holds_no_steps(manager):
    assert manager.latest_step() is None
    assert manager.all_steps() == []
    manager.wait()
    assert manager.reports == []


def test_saved_steps_are_listed_once_durable(manager, variable):
    tables.fill(variable, range(10))
    assert manager.save(7) is True
    manager.wait()
    assert manager.save(12) is True
    manager.wait()
    assert manager.all_steps() == [7, 12]
    assert manager.latest_step() == 12
    assert [report.step for report in manager.reports] == [7, 12]


@pytest.mark.parametrize("step", [-1, 1.0, "3", True, None, 10**16])
def test_step_that_is_no_number_is_refused(manager, step):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value for step. Received: "):
        manager.save(step)
    assert manager.save(0) is True  # nothing was begun


@pytest.mark.parametrize("step", [3, 2])
def test_step_that_does_not_rise_is_refused(manager, step):
    manager.save(3)
    manager.wait()
    with pytest.raises(errors.CheckpointExistsError) as caught:
        manager.save(step)
    assert f"rising steps. Received: {step}. Expected: more than 3" in str(caught.value)
    assert manager.save(4) is True


def test_step_in_flight_counts(tmp_path, variable, held_back):
    manager = tables.manage(tmp_path, variable, strategy=held_back)
    manager.save(3)
    threading.Timer(0.2, held_back.release.set).start()
    with pytest.raises(errors.CheckpointExistsError, match="more than 3"):
        manager.save(3)
    manager.wait()
    manager.close()


def test_newer_checkpoints_can_be_given_up(manager, variable):
    tables.fill(variable, range(10))
    manager.save(1)
    expected = tables.rows_of(variable)
    for step in (2, 3):
        tables.fill(variable, range(5 * step), seed=step)
        manager.save(step)
    manager.restore(1)
    manager.delete_newer(1)
    assert manager.all_steps() == [1]
    expected.update(tables.fill(variable, range(8, 14), seed=9))
    manager.save(2)
    manager.wait()
    assert manager.reports[-1].kind == "delta"
    tables.fill(variable, range(50), seed=10)
    manager.restore()
    assert tables.rows_of(variable) == expected


def test_rows_of_given_up_checkpoints_are_saved_again(manager, variable):
    """Without a restore the tables are ahead of the newest checkpoint that is left."""
    for step in (1, 2, 3):
        tables.fill(variable, range(5 * step), seed=step)
        manager.save(step)
    expected = tables.rows_of(variable)
    manager.delete_newer(1)
    manager.save(2)
    manager.wait()
    tables.fill(variable, range(50), seed=10)
    manager.restore(2)
    assert tables.rows_of(variable) == expected


def test_missing_step_is_an_error_that_lists_the_others(manager):
    with pytest.raises(errors.CheckpointNotFoundError, match="no checkpoint in .*steps \\[\\]"):
        manager.restore()
    manager.save(3)
    manager.wait()
    with pytest.raises(FileNotFoundError, match="no checkpoint of step 4 in .*steps \\[3\\]"):
        manager.restore(4)


def test_position_and_counters_are_kept(manager, tmp_path):
    position = acp.Position(epoch=1, batch=3, batches_total=13)
    manager.save(13, position=position, counters={"loss": 0.5})
    manager.wait()
    manifest = CheckpointStore(tmp_path / "run").read(13)
    assert manifest.position == position
    assert manifest.counters == {"loss": 0.5}
    report = manager.restore()
    assert (report.position, report.counters) == (position, {"loss": 0.5})


def test_report_tells_what_was_saved(manager, variable, tmp_path):
    tables.fill(variable, range(10))
    manager.save(1)
    manager.wait()
    tables.fill(variable, range(8, 13))
    tables.remove(variable, range(2))
    manager.save(2)
    manager.wait()
    base, delta = manager.reports
    assert (base.kind, base.rows_cold + base.rows_hot, base.tombstones) == ("base", 10, 0)
    assert (delta.kind, delta.rows_cold, delta.rows_hot, delta.tombstones) == ("delta", 5, 0, 2)
    for report in (base, delta):
        files = CheckpointStore(tmp_path / "run").read(report.step).segments
        written = [segment.bytes for segment in files if segment.interval == report.step]
        assert report.bytes == sum(written) > 0
        assert report.rows_drained + report.rows_saved_on_update == report.rows_cold
        assert 0 <= report.stall_ms < report.seconds_to_durable * 1e3


def test_one_log_line_a_checkpoint(manager, variable, caplog):
    tables.fill(variable, range(10))
    with caplog.at_level(logging.INFO, "adaptcp_tf"):
        manager.save(1)
        manager.wait()
    (record,) = caplog.records
    message = record.getMessage()
    for word in ("step 1", "base", "hot", "10 cold", "removed", "MB", "stall", "durable after"):
        assert word in message


# What to do while the previous checkpoint is being saved.


def test_busy_manager_skips_and_saves_the_rows_next_time(tmp_path, variable, held_back):
    manager = tables.manage(tmp_path, variable, strategy=held_back, when_busy="skip")
    manager.save(1)
    tables.fill(variable, range(10))
    assert manager.save(2) is False
    expected = tables.rows_of(variable)
    assert manager.skipped == 1
    held_back.release.set()
    manager.wait()
    assert manager.save(3) is True
    manager.wait()
    assert manager.all_steps() == [1, 3]
    tables.fill(variable, range(20), seed=1)
    manager.restore()
    assert tables.rows_of(variable) == expected
    manager.close()


def test_busy_manager_waits_if_told_to(tmp_path, variable, held_back):
    manager = tables.manage(tmp_path, variable, strategy=held_back, when_busy="wait")
    manager.save(1)
    threading.Timer(0.3, held_back.release.set).start()
    assert manager.save(2) is True
    assert held_back.release.is_set()
    manager.wait()
    assert (manager.all_steps(), manager.skipped) == ([1, 2], 0)
    assert manager.reports[1].stall_ms > 100  # waiting is stall, and told so
    manager.close()


def test_wait_ends_at_its_timeout(tmp_path, variable, held_back):
    manager = tables.manage(tmp_path, variable, strategy=held_back)
    manager.save(1)
    with pytest.raises(TimeoutError, match="not durable after 0.05 s.*goes on"):
        manager.wait(timeout_secs=0.05)
    held_back.release.set()
    manager.wait(timeout_secs=300)
    manager.close()


# Who may use what.


def test_manager_needs_something_to_save(tmp_path):
    with pytest.raises(errors.InvalidOptionError, match="nothing to save"):
        acp.CheckpointManager(str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("thing", [3, "emb", tf.Variable(1.0)])
def test_variables_must_be_tfras(tmp_path, variable, thing):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value in variables. Received: "):
        tables.manage(tmp_path / "run", thing)
    tables.manage(tmp_path / "run", variable).close()  # directory and variable are free


def test_variables_of_one_name_are_refused(tmp_path, variable):
    other = tables.make_variable()
    with pytest.raises(errors.InvalidOptionError, match="same name.*'emb', 'emb'"):
        tables.manage(tmp_path, variable, other)
    tables.manage(tmp_path, variable).close()


def test_second_manager_of_a_directory_is_refused(manager, tmp_path):
    other = tables.make_variable("other")
    with pytest.raises(errors.DirectoryLockedError):
        tables.manage(tmp_path / "run", other)
    manager.close()
    tables.manage(tmp_path / "run", other).close()


def test_second_manager_of_a_variable_is_refused(manager, tmp_path, variable):
    with pytest.raises(errors.InvalidOptionError) as caught:
        tables.manage(tmp_path / "other", variable)
    assert f"'emb' is already checkpointed to '{tmp_path / 'run'}'" in str(caught.value)
    manager.close()
    tables.manage(tmp_path / "other", variable).close()


def test_refused_manager_leaves_the_other_alone(manager, tmp_path, variable):
    with pytest.raises(errors.InvalidOptionError):
        tables.manage(tmp_path / "other", variable)
    tables.fill(variable, range(10))
    manager.save(1)
    manager.wait()
    assert manager.reports[0].rows_cold == 10


def test_closed_manager_says_so(manager):
    manager.close()
    manager.close()
    for call in (lambda: manager.save(1), manager.restore):
        with pytest.raises(errors.InvalidOptionError, match="is closed. Make a new one"):
            call()
    assert manager.all_steps() == []


def test_close_finishes_the_save_in_flight(manager, variable, tmp_path):
    tables.fill(variable, range(5000))
    manager.save(1)
    manager.close()
    assert CheckpointStore(tmp_path / "run").all_steps() == [1]


def test_dropped_manager_gives_the_directory_back(tmp_path):
    variable = tables.make_variable()
    tables.fill(variable, range(20_000))
    tables.manage(tmp_path, variable).save(1)  # a save in flight is finished first
    deadline = time.monotonic() + 300
    while (tmp_path / "adaptcp.lock").exists() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert CheckpointStore(tmp_path).all_steps() == [1]
    tables.manage(tmp_path, variable).close()


def test_next_manager_continues_where_the_last_one_stopped(tmp_path, variable):
    expected = {}
    for step in range(1, 4):
        manager = tables.manage(tmp_path, variable, strategy="incremental")
        if step > 1:
            assert manager.restore().step == step - 1
        tables.fill(variable, range(step * 10), seed=step)
        expected[step] = tables.rows_of(variable)
        manager.save(step)
        manager.wait()
        # It knows the chain, so nothing has to be saved twice.
        assert manager.reports[0].kind == ("base" if step == 1 else "delta")
        manager.close()
    manager = tables.manage(tmp_path, variable)
    for step, rows in expected.items():
        manager.restore(step)
        assert tables.rows_of(variable) == rows
    manager.close()


def test_manager_that_does_not_restore_starts_with_a_base(tmp_path, variable):
    tables.fill(variable, range(10))
    for step in (1, 2):
        manager = tables.manage(tmp_path, variable, strategy="incremental")
        manager.save(step)
        manager.wait()
        assert manager.reports[0].kind == "base"
        manager.close()


def test_optimizer_alone_can_be_managed(tmp_path):
    model = models.build()
    models.train(model, models.dataset(2))
    manager = acp.CheckpointManager(str(tmp_path), optimizer=model.optimizer)
    manager.save(1)
    manager.wait()
    assert [group.name for group in CheckpointStore(tmp_path).read(1).groups] == ["emb-parameter"]
    manager.close()
