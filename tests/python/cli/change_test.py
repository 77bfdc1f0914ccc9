# SPDX-License-Identifier: Apache-2.0
"""`adaptcp gc` and `adaptcp diff`: what goes, what stays, and how many rows changed."""

import json

import pytest
import tensorflow as tf

from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf.cli import main
from tests.support import checkpoints, faults, tables, two_tiers


@pytest.fixture
def run(tmp_path):
    checkpoints.chain(tmp_path / "run")
    return tmp_path / "run"


def as_json(capsys, *arguments, status=0):
    assert main([*map(str, arguments), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def all_files(run):
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


# gc


def test_newest_stay_with_all_they_need(run, capsys):
    (run / "segments" / "notes.txt").write_text("mine")
    before = all_files(run)
    planned = as_json(capsys, "gc", run, "--keep", "1", "--dry-run")
    assert planned["deleted_steps"] == [10, 20] and all_files(run) == before
    sizes = {path: (run / path).stat().st_size for path in before}
    done = as_json(capsys, "gc", run, "--keep", "1")
    assert {**done, "dry_run": True} == planned
    gone = before - all_files(run)
    segments = {path for path in gone if path.startswith("segments/")}
    assert len(gone - segments) == 2, "two manifests"
    assert (done["files"], done["bytes"]) == (len(segments), sum(map(sizes.get, segments)))
    assert (run / "segments" / "notes.txt").exists()
    assert main(["verify", str(run)]) == 0


def test_what_a_killed_save_left_goes(run, capsys):
    left = run / "segments" / "0000000000000020-0badcafe"
    left.mkdir()
    (left / "g0-s0of2-increment.acp").write_bytes(bytes(123))
    done = as_json(capsys, "gc", run, "--keep", "3")
    assert (done["deleted_steps"], done["files"], done["bytes"]) == ([], 1, 123)
    assert not left.exists()


def test_files_that_may_wait_for_an_upload_stay(run, capsys):
    pending = run / "segments" / "0000000000000040-0badcafe"
    pending.mkdir()
    (pending / "g0-s0of2-increment.acp").write_bytes(bytes(123))
    assert as_json(capsys, "gc", run, "--keep", "3")["files"] == 0
    assert pending.exists()


def test_nothing_of_an_unreadable_checkpoint_goes(run, capsys):
    faults.flip(run / "manifest-0000000000000010.json", 50)
    before = {path for path in all_files(run) if path.startswith("segments/")}
    done = as_json(capsys, "gc", run, "--keep", "1", status=1)
    assert "manifest-0000000000000010.json" in done["unreadable"][0]
    assert before <= all_files(run)


def test_directory_of_a_living_trainer_is_refused(tmp_path, capsys):
    with checkpoints.training(tmp_path) as (manager, _, _):
        checkpoints.save(manager, 1)
        checkpoints.save(manager, 2)
        for arguments in (["gc", str(tmp_path), "--keep", "1"], ["compact", str(tmp_path)]):
            assert main(arguments) == 1
            assert "another manager of this process" in capsys.readouterr().err
        assert manager.all_steps() == [1, 2]
        assert as_json(capsys, "gc", tmp_path, "--keep", "1", "--dry-run")["deleted_steps"] == [1]


def test_buffer_is_left_to_its_trainer(tmp_path, capsys):
    with two_tiers.running(tmp_path) as run:
        manager = run.manage()
        run.save(manager, 1)
        manager.wait()
        manager.close()
        for arguments in (["gc", str(run.local), "--keep", "1"], ["compact", str(run.local)]):
            assert main(arguments) == 2
            assert f"the buffer of '{run.directory}'" in capsys.readouterr().err


@pytest.mark.parametrize("keep", ["0", "-1"])
def test_keeping_nothing_is_wrong_use(run, capsys, keep):
    before = all_files(run)
    assert main(["gc", str(run), "--keep", keep]) == 2
    assert all_files(run) == before


# diff


def changes(capsys, run, *steps, status=0):
    report = as_json(capsys, "diff", run, *steps, status=status)
    return {
        group["name"]: tuple(group[name] for name in ("added", "changed", "removed"))
        for group in report["groups"]
    }


def test_rows_are_counted_by_variable(run, capsys):
    assert changes(capsys, run, 10, 20) == {"users": (10, 5, 4), "items": (0, 0, 0)}
    assert changes(capsys, run, 20, 30) == {"users": (0, 0, 0), "items": (1, 0, 0)}
    assert changes(capsys, run, 10, 30) == {"users": (10, 5, 4), "items": (1, 0, 0)}


def test_sizes_are_those_of_rows_and_of_files(run, capsys):
    groups = {g["name"]: g for g in as_json(capsys, "diff", run, 10, 20)["groups"]}
    users, items = groups["users"], groups["items"]
    assert (users["rows_before"], users["rows_after"]) == (60, 66)
    assert (users["row_bytes"], users["bytes_changed"]) == (16, 15 * 16)
    written = CheckpointStore(run).read(20).segments
    assert users["bytes_written"] == sum(s.bytes for s in written if s.interval == 2)
    assert items["bytes_written"] == 0


@pytest.mark.parametrize("keys", [tf.int32, tf.string])
@pytest.mark.parametrize("strategy", ["full", "differential", "adaptive"])
def test_every_strategy_and_key_tells_the_same(tmp_path, capsys, strategy, keys):
    variable = tables.make_variable(keys=keys, shards=2)
    manager = tables.manage(tmp_path, variable, strategy=strategy)
    states = {}
    for step in range(1, 5):
        tables.fill(variable, range(step * 10, 100, step), seed=step)
        tables.remove(variable, range(3 * step, 100, 17))
        checkpoints.save(manager, step)
        states[step] = tables.rows_of(variable)
    manager.close()
    for earlier in range(1, 4):
        for later in range(earlier + 1, 5):
            old, new = states[earlier], states[later]
            both = old.keys() & new.keys()
            added, changed, removed = changes(capsys, tmp_path, earlier, later)["emb"]
            assert (added, removed) == (len(new) - len(both), len(old) - len(both))
            assert changed == sum(old[key] != new[key] for key in both)


def test_rows_of_another_past_count_as_changed(tmp_path, capsys):
    """Step 3 goes on from step 1: what step 2 had changed is another row there."""
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    tables.fill(variable, range(20))
    checkpoints.save(manager, 1)
    tables.fill(variable, range(5), seed=1)
    checkpoints.save(manager, 2)
    manager.restore(1)
    tables.fill(variable, range(3, 6), seed=2)
    checkpoints.save(manager, 3)
    manager.close()
    assert changes(capsys, tmp_path, 2, 3) == {"emb": (0, 6, 0)}
    assert changes(capsys, tmp_path, 1, 3) == {"emb": (0, 3, 0)}


def test_steps_must_rise_and_exist(run, capsys):
    assert main(["diff", str(run), "20", "10"]) == 2
    assert "the earlier one first" in capsys.readouterr().err
    assert main(["diff", str(run), "10", "11"]) == 2
    assert "step 11" in capsys.readouterr().err


def test_damage_is_a_problem(run, capsys):
    (path,) = run.glob("segments/*20-*/g*-s0of2-increment.acp")
    # The middle of the file holds values, which are not read.
    faults.truncate(path, -1)
    assert main(["diff", str(run), "10", "20"]) == 1
    assert path.name in capsys.readouterr().err


def test_table_fits_eighty_columns(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["diff", str(run), "10", "30"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    (users,) = (line.split() for line in lines if line.lstrip().startswith("users"))
    assert users[1:5] == ["66", "10", "5", "4"]
