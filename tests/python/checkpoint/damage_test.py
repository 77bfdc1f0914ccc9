# SPDX-License-Identifier: Apache-2.0
"""Damaged, missing and exchanged files: an error that names the file, never other rows."""

import random
import shutil

import pytest

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import faults, models, tables


@pytest.fixture
def run(tmp_path):
    """A base and two increments on two shards, and the rows of the last.

    Each is written before the next rows come: rows saved on update would have blocks of their own,
    and when a newer segment has all rows of a block, a restore does not read its values.
    """
    variable = tables.make_variable(shards=2)
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    for step in (1, 2, 3):
        tables.fill(variable, range(20 * step, 20 * step + 200), seed=step)
        tables.remove(variable, range(30))
        manager.save(step)
        manager.wait()
    yield variable, manager, tables.rows_of(variable)
    manager.close()


def segments(directory, step=3):
    return [directory / segment.path for segment in CheckpointStore(directory).read(step).segments]


def refused(manager, path, step=None):
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        manager.restore(step)
    assert path.name in str(caught.value) and str(path.parent.name) in str(caught.value)
    return caught.value


def middle(path):
    return path.stat().st_size // 2


DAMAGES = {
    "flipped header": lambda path: faults.flip(path, 20),
    # More than the frame of a record has: a restore has no need of those lengths and checksums.
    "flipped middle": lambda path: faults.flip(path, middle(path), num_bytes=32),
    "flipped end": lambda path: faults.flip(path, -2),
    "two bytes lost": lambda path: faults.truncate(path, -2),
    "half lost": lambda path: faults.truncate(path, middle(path)),
    "empty": lambda path: faults.truncate(path, 0),
    "one byte more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "all zero": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", range(6))
def test_damaged_segment_is_named(tmp_path, run, damage, which):
    _, manager, _ = run
    path = segments(tmp_path)[which]
    DAMAGES[damage](path)
    refused(manager, path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_manifest_is_named(tmp_path, run, damage):
    _, manager, _ = run
    path = tmp_path / "manifest-0000000000000003.json"
    DAMAGES[damage](path)
    if damage == "missing":  # then there is no such checkpoint
        assert manager.restore().step == 2
    else:
        with pytest.raises(errors.CorruptCheckpointError, match=path.name):
            manager.restore()
        assert manager.restore(2).step == 2


def test_manifest_of_another_step_is_named(tmp_path, run):
    _, manager, _ = run
    path = tmp_path / "manifest-0000000000000003.json"
    path.write_bytes((tmp_path / "manifest-0000000000000002.json").read_bytes())
    with pytest.raises(errors.CorruptCheckpointError, match=f"{path.name}.*step"):
        manager.restore()


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 3), (1, 2), (4, 5), (2, 5)])
def test_exchanged_segments_are_named(tmp_path, run, one, other):
    """Of other intervals and other shards, whatever their sizes."""
    _, manager, _ = run
    paths = segments(tmp_path)
    faults.swap(paths[one], paths[other])
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        manager.restore()
    assert any(str(paths[i]) in str(caught.value) for i in (one, other))


def test_segment_of_another_run_is_named(tmp_path, run):
    _, manager, _ = run
    variable = tables.make_variable(shards=2)
    other = tables.manage(tmp_path / "other", variable)
    tables.fill(variable, range(20, 220), seed=8)  # same keys, other values: same size
    tables.remove(variable, range(30))
    other.save(1)
    other.close()
    ours, theirs = segments(tmp_path, 1)[0], segments(tmp_path / "other", 1)[0]
    assert ours.stat().st_size == theirs.stat().st_size
    ours.write_bytes(theirs.read_bytes())
    refused(manager, ours)


def test_any_flipped_bit_is_noticed_or_does_not_matter(tmp_path, run):
    variable, manager, expected = run
    rng = random.Random(0)
    noticed = 0
    for _ in range(60):
        path = rng.choice(segments(tmp_path))
        offset = rng.randrange(path.stat().st_size)
        faults.flip(path, offset)
        try:
            manager.restore()
            assert tables.rows_of(variable) == expected, (path.name, offset)
        except errors.CorruptCheckpointError as error:
            assert str(path) in str(error)
            noticed += 1
        faults.flip(path, offset)
    assert noticed > 30
    manager.restore()
    assert tables.rows_of(variable) == expected


def test_nothing_changes_when_a_file_is_missing(tmp_path, run):
    """Missing files are noticed before the first row is touched."""
    variable, manager, _ = run
    tables.fill(variable, range(7), seed=50)
    expected = tables.rows_of(variable)
    segments(tmp_path)[-1].unlink()
    with pytest.raises(errors.CorruptCheckpointError, match="incomplete"):
        manager.restore()
    assert tables.rows_of(variable) == expected


def test_other_steps_stay_restorable(tmp_path, run):
    variable, manager, _ = run
    path = segments(tmp_path)[-1]
    faults.flip(path, middle(path), num_bytes=32)
    refused(manager, path, step=3)
    manager.restore(2)
    assert int(variable.size()) > 0
    manager.save(4)
    manager.wait()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trained model and the directory of its checkpoint."""
    directory = tmp_path_factory.mktemp("trained")
    model = models.build()
    models.train(model, models.dataset(1))
    manager = acp.CheckpointManager(str(directory), model=model)
    manager.save(1)
    manager.close()
    return model, directory


@pytest.mark.parametrize("name", ["dense.index", "dense.data-00000-of-00001"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_dense_file_is_named(tmp_path, trained, name, damage):
    model, directory = trained
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    (path,) = (tmp_path / "segments").glob(f"*/{name}")
    DAMAGES[damage](path)
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        manager.restore()
    assert str(path.parent / "dense") in str(caught.value)
    manager.close()


def test_checkpoint_after_a_failed_restore_is_a_base(tmp_path, run):
    """The model is neither what it was nor what was saved: no chain describes it."""
    variable, manager, _ = run
    damaged = segments(tmp_path)[-1]
    content = damaged.read_bytes()
    faults.flip(damaged, middle(damaged), num_bytes=32)
    with pytest.raises(errors.CorruptCheckpointError):
        manager.restore()
    damaged.write_bytes(content)
    tables.fill(variable, range(5), seed=9)
    manager.save(4)
    manager.wait()
    assert manager.reports[-1].kind == "base"
    expected = tables.rows_of(variable)
    manager.restore(4)
    assert tables.rows_of(variable) == expected


def test_refused_restore_changes_nothing_and_training_goes_on(tmp_path, run):
    variable, manager, expected = run
    missing = segments(tmp_path)[-1]
    moved = missing.rename(missing.with_suffix(".moved"))
    with pytest.raises(errors.CorruptCheckpointError):
        manager.restore()
    moved.rename(missing)
    assert tables.rows_of(variable) == expected
    manager.save(4)
    manager.wait()
    assert manager.reports[-1].kind == "delta"
