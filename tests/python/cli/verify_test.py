# SPDX-License-Identifier: Apache-2.0
"""`adaptcp verify`: no damage stays hidden, each is told with its file and the steps that need it."""

import json
import shutil

import pytest
import tensorflow as tf

from adaptcp_tf._src.inspection import verify, verifying
from adaptcp_tf._src.manifest import CheckpointStore, Tiers
from adaptcp_tf._src.ops.inspect import read_segment_keys
from adaptcp_tf.cli import main
from tests.support import checkpoints, faults, two_tiers


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sound")
    checkpoints.chain(directory)
    return directory


@pytest.fixture
def run(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "run")
    return tmp_path / "run"


def verified(capsys, run, *arguments, status):
    assert main(["verify", str(run), "--json", *arguments]) == status
    return json.loads(capsys.readouterr().out)


def path_of(run, step, kind):
    manifest = CheckpointStore(run).read(step)
    return next(s.path for s in manifest.segments if s.kind == kind and s.group == "users")


def test_sound_checkpoints_are_read_whole_and_once(sound, capsys):
    report = verified(capsys, sound, status=0)
    sizes = {}
    for step in (10, 20, 30):
        sizes.update(CheckpointStore(sound).read(step).files())
    assert report["steps"] == [10, 20, 30]
    assert (report["files"], report["bytes"]) == (len(sizes), sum(sizes.values()))
    assert report["problems"] == report["bad_steps"] == []


def test_flipped_bytes_of_a_segment_are_found(run):
    relative = path_of(run, 20, "increment")
    path = run / relative
    data = path.read_bytes()
    tiers = Tiers(run)
    for offset in range(0, len(data), 5):  # of all: tests/cc/engine/segment_damage_test.cc
        faults.flip(path, offset)
        (problem,) = verify(tiers, [20, 30]).problems
        assert (problem.path, problem.steps) == (relative, (20, 30)), offset
        assert problem.message.startswith(str(path)), "and nothing of TensorFlow's before"
        assert "[Op:" not in problem.message
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["dense.index", "dense.data-00000-of-00001"])
def test_flipped_bytes_of_dense_variables_are_found(run, name):
    (path,) = run.glob(f"segments/*20-*/{name}")
    data = path.read_bytes()
    unnoticed = []
    for offset in range(0, len(data), 1 if name == "dense.index" else 37):
        faults.flip(path, offset)
        problems = verify(Tiers(run), [20]).problems
        assert {problem.path.rsplit("/", 1)[1] for problem in problems} <= {"dense.index"}
        unnoticed += [] if problems else [offset]
        path.write_bytes(data)
    # TensorFlow's index ends with a block that nobody reads, padding, and a magic number.
    unread = range(len(data) - 80, len(data) - 8) if name == "dense.index" else ()
    assert set(unnoticed) <= set(unread)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: faults.truncate(path, -1),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
    ],
)
@pytest.mark.parametrize("kind", ["base", "dense"])
def test_missing_and_cut_files_are_named(run, capsys, damage, kind):
    if kind == "base":
        relative, steps = path_of(run, 30, "base"), [10, 20, 30]
    else:
        (path,) = run.glob("segments/*30-*/dense.index")
        relative, steps = str(path.relative_to(run)), [30]
    damage(run / relative)
    report = verified(capsys, run, status=1)
    (problem,) = report["problems"]
    assert (problem["path"], problem["steps"], report["bad_steps"]) == (relative, steps, steps)
    assert main(["verify", str(run)]) == 1
    assert relative in capsys.readouterr().out


def test_exchanged_segments_are_not_what_was_written(run, capsys):
    first, second = (path_of(run, step, "base").replace("s0of2", "s{}of2") for step in (10, 10))
    paths = [run / first.format(0), run / second.format(1)]
    faults.swap(*paths)
    report = verified(capsys, run, status=1)
    assert {problem["path"] for problem in report["problems"]} == {
        str(path.relative_to(run)) for path in paths
    }


def test_one_step_is_looked_at_alone(run, capsys):
    faults.flip(run / path_of(run, 20, "increment"), 50)
    assert verified(capsys, run, "--step", "10", status=0)["steps"] == [10]
    assert verified(capsys, run, "--step", "30", status=1)["bad_steps"] == [30]


def test_damaged_manifest_is_told(run, capsys):
    faults.truncate(run / "manifest-0000000000000020.json", -3)
    (problem,) = verified(capsys, run, status=1)["problems"]
    assert (problem["path"], problem["steps"]) == ("manifest-0000000000000020.json", [20])


def test_damage_is_told_in_eighty_columns(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    faults.flip(run / path_of(run, 20, "increment"), 50)
    assert main(["verify", str(run)]) == 1
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "needed by step 20, 30" in out and "1 of 3 checkpoints are good" in out


def test_files_that_left_the_buffer_are_read_in_the_directory(tmp_path, capsys):
    with two_tiers.running(tmp_path) as run:
        manager = run.manage()
        for step in (1, 2):
            run.save(manager, step)
        manager.wait()
        manager.close()
        (base,) = run.local.glob("segments/*1-*/*-base.acp")
        base.unlink()
        assert verified(capsys, run.local, status=0)["steps"] == [1, 2]
        (base,) = run.remote.glob("segments/*1-*/*-base.acp")
        faults.flip(base, 100)
        assert verified(capsys, run.local, status=1)["bad_steps"] == [1, 2]


@pytest.fixture
def when_found(monkeypatch):
    """Has something done between the moment a file is found and that it is read."""
    size = verifying.files.size

    def arrange(path, action):
        def found(candidate):
            result = size(candidate)
            if candidate == str(path):
                action()
            return result

        monkeypatch.setattr(verifying.files, "size", found)

    return arrange


@pytest.mark.parametrize("name", ["*-increment.acp", "dense.index"])
def test_checkpoints_that_retention_deletes_meanwhile_are_left_out(run, when_found, name):
    path = next(run.glob(f"segments/*20-*/{name}"))

    def delete():
        for step in (20, 30):
            CheckpointStore(run).delete_manifest(step)
        path.unlink(missing_ok=True)

    when_found(path, delete)
    report = verify(Tiers(run), [10, 20, 30])
    assert (report.steps, report.problems) == ((10,), ())


@pytest.mark.parametrize("name", ["*-increment.acp", "dense.index"])
def test_file_of_a_checkpoint_that_is_kept_must_not_go(run, when_found, name):
    path = next(run.glob(f"segments/*30-*/{name}"))

    def delete():
        CheckpointStore(run).delete_manifest(10)
        path.unlink(missing_ok=True)

    when_found(path, delete)
    report = verify(Tiers(run), [10, 20, 30])
    assert report.steps == (20, 30)
    (problem,) = report.problems
    assert (problem.path, problem.steps) == (str(path.relative_to(run)), (30,))


def test_file_that_leaves_the_buffer_meanwhile_is_read_in_the_directory(tmp_path, when_found):
    with two_tiers.running(tmp_path) as run:
        manager = run.manage()
        run.save(manager, 1)
        manager.wait()
        manager.close()
        (path,) = run.local.glob("segments/*1-*/*-base.acp")
        when_found(path, path.unlink)
        report = verify(Tiers(run.directory, run.local), [1])
    assert (report.steps, report.problems) == ((1,), ())


@pytest.mark.parametrize("keys", [tf.int64, tf.int32, tf.string])
def test_keys_are_read_alone(tmp_path, keys):
    variable = checkpoints.tables.make_variable(keys=keys)
    checkpoints.tables.fill(variable, range(50))
    manager = checkpoints.tables.manage(tmp_path, variable, strategy="incremental")
    checkpoints.save(manager, 1)
    checkpoints.tables.remove(variable, range(10))
    checkpoints.save(manager, 2)
    manager.close()
    (base, increment) = CheckpointStore(tmp_path).read(2).segments
    found = read_segment_keys(str(tmp_path / base.path), keys)
    expected = checkpoints.tables.make_keys(keys, range(50)).numpy()
    assert sorted(found.keys) == sorted(expected)
    assert not found.tombstones.any() and set(found.last_updated) == {1}
    found = read_segment_keys(str(tmp_path / increment.path), keys)
    assert sorted(found.keys) == sorted(expected[:10])
    assert found.tombstones.all() and set(found.last_updated) == {2}
    other = tf.int32 if keys == tf.int64 else tf.int64
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"expected {other.name} keys"):
        read_segment_keys(str(tmp_path / base.path), other)
