# SPDX-License-Identifier: Apache-2.0
"""A save that fails in the background fails alone: training goes on, and the next one is complete."""

import shutil

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint import saving
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import faults, tables

OPTIONS = [
    {"strategy": "full"},
    {"strategy": "incremental"},
    {"strategy": "differential"},
    {"strategy": "adaptive", "hot_threshold": 0.5},
]


@pytest.fixture
def disk(tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk:
        yield disk


def train(variable, step):
    """Some rows in every step, some in this one only, some removed."""
    tables.fill(variable, range(0, 100), seed=step)
    tables.fill(variable, range(100 * step, 100 * step + 200), seed=step)
    tables.remove(variable, range(100 * step, 100 * step + 20))


def everything_below(directory):
    return sorted(path for path in directory.rglob("*") if path.name != "segments")


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options["strategy"])
@pytest.mark.parametrize("failing", [1, 3])
def test_full_disk_fails_one_checkpoint_and_nothing_else(disk, options, failing):
    variable = tables.make_variable()
    manager = tables.manage(disk.path / "run", variable, **options)
    expected = {}
    for step in range(1, failing):
        train(variable, step)
        manager.save(step)
        expected[step] = tables.rows_of(variable)
    manager.wait()
    before = everything_below(disk.path / "run")

    train(variable, failing)
    with disk.full():
        manager.save(failing)
        train(variable, failing + 1)
        with pytest.raises(errors.CheckpointFailedError) as caught:
            manager.wait()
    assert f"step {failing} in '{disk.path}/run' could not be saved" in str(caught.value)
    assert "function_node" not in str(caught.value)
    assert caught.value.__cause__ is not None
    manager.wait()  # told once
    assert everything_below(disk.path / "run") == before  # no trace

    for step in range(failing + 1, failing + 4):
        train(variable, step)
        manager.save(step)
        expected[step] = tables.rows_of(variable)
    manager.wait()
    assert manager.all_steps() == list(expected)
    for step, rows in expected.items():
        manager.restore(step)
        assert tables.rows_of(variable) == rows, f"step {step}"
    manager.close()


def test_failure_is_told_by_the_next_save(disk):
    variable = tables.make_variable()
    manager = tables.manage(disk.path / "run", variable)
    tables.fill(variable, range(1000))
    with disk.full():
        manager.save(1)
        with pytest.raises(errors.CheckpointFailedError, match="step 1"):
            manager.save(2)
    assert manager.save(2) is True
    manager.wait()
    assert manager.all_steps() == [2]
    manager.close()


def test_failed_step_can_be_saved_again(disk):
    variable = tables.make_variable()
    manager = tables.manage(disk.path / "run", variable)
    expected = tables.fill(variable, range(1000))
    with disk.full():
        manager.save(5)
        with pytest.raises(errors.CheckpointFailedError):
            manager.wait()
    assert manager.latest_step() is None
    manager.save(5)
    manager.wait()
    tables.fill(variable, range(10), seed=1)
    manager.restore(5)
    assert tables.rows_of(variable) == expected
    manager.close()


def test_failure_after_failure_loses_nothing(disk):
    variable = tables.make_variable()
    manager = tables.manage(disk.path / "run", variable, strategy="incremental")
    train(variable, 1)
    manager.save(1)
    manager.wait()
    with disk.full():
        for step in range(2, 6):
            train(variable, step)
            manager.save(step)
            with pytest.raises(errors.CheckpointFailedError):
                manager.wait()
    expected = tables.rows_of(variable)
    manager.save(6)
    manager.wait()
    tables.fill(variable, range(2000), seed=99)
    manager.restore(6)
    assert tables.rows_of(variable) == expected
    manager.close()


def test_updates_that_would_save_rows_of_a_failed_cut_go_on(disk):
    """Rows of the cut that updates force out have nowhere to go; training must not care."""
    variable = tables.make_variable(dim=64)
    manager = tables.manage(disk.path / "run", variable)
    tables.fill(variable, range(20_000))
    with disk.full():
        manager.save(1)
        for seed in range(1, 6):
            tables.fill(variable, range(20_000), seed=seed)
        with pytest.raises(errors.CheckpointFailedError):
            manager.wait()
    assert tables.rows_of(variable) == tables.fill(variable, range(20_000), seed=5)
    manager.close()


def test_file_where_the_directory_of_segments_should_be(tmp_path):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable)
    tables.fill(variable, range(10))
    (tmp_path / "segments").write_text("in the way")
    manager.save(1)
    with pytest.raises(errors.CheckpointFailedError, match="segments"):
        manager.wait()
    assert (tmp_path / "segments").read_text() == "in the way"
    (tmp_path / "segments").unlink()
    manager.save(1)
    manager.wait()
    assert manager.reports[0].rows_cold == 10
    manager.close()


def test_directory_that_was_deleted_is_not_written_to(tmp_path):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path / "run", variable)
    tables.fill(variable, range(10))
    shutil.rmtree(tmp_path / "run")
    manager.save(1)
    with pytest.raises(errors.CheckpointFailedError, match="lock"):
        manager.wait()
    assert CheckpointStore(tmp_path / "run").all_steps() == []
    manager.close()


def test_trainer_whose_lock_was_stolen_saves_nothing_more(tmp_path):
    variable, other = tables.make_variable(), tables.make_variable("other")
    manager = tables.manage(tmp_path, variable)
    thief = tables.manage(tmp_path, other, steal_lock=True)
    tables.fill(variable, range(10))
    manager.save(1)
    with pytest.raises(errors.CheckpointFailedError, match=str(tmp_path)):
        manager.wait()
    thief.save(1)
    thief.wait()
    assert [group.name for group in CheckpointStore(tmp_path).read(1).groups] == ["other"]
    manager.close()
    thief.close()


def test_failure_on_close_is_logged(disk, caplog):
    variable = tables.make_variable()
    manager = tables.manage(disk.path / "run", variable)
    tables.fill(variable, range(1000))
    with disk.full():
        manager.save(1)
        manager.close()
    assert any("step 1" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("rest_secs", [0.0, 3600.0])
def test_chain_is_looked_up_again_once_in_a_while(tmp_path, monkeypatch, rest_secs):
    monkeypatch.setattr(saving, "_LOOKS_AGAIN_SECS", rest_secs)
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    for step in (1, 2):
        tables.fill(variable, range(step), seed=step)
        manager.save(step)
        manager.wait()
    next(tmp_path.glob("segments/*/*-base.acp")).unlink()
    tables.fill(variable, range(3), seed=3)
    manager.save(3)
    if rest_secs:
        manager.wait()
    else:
        with pytest.raises(errors.CheckpointFailedError, match="base.acp' is missing"):
            manager.wait()
    manager.close()
