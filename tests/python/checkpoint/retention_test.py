# SPDX-License-Identifier: Apache-2.0
"""A manager keeps the checkpoints it promised to keep, all of their files, and no others of its own."""

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint import background, saving
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import tables

STRATEGIES = ["full", "incremental", "differential", "adaptive"]


def run(directory, steps=9, **options):
    """Trains and saves; returns the variable, the manager and step -> rows."""
    variable = tables.make_variable(shards=2)
    manager = tables.manage(directory, variable, **options)
    expected = {}
    for step in range(1, steps + 1):
        tables.fill(variable, range(step * 5, step * 10), seed=step)
        tables.remove(variable, range(step))
        expected[step] = tables.rows_of(variable)
        manager.save(step)
    manager.wait()
    return variable, manager, expected


def files_needed(directory):
    """Every path that the checkpoints of a directory need, as their manifests tell."""
    store = CheckpointStore(directory)
    return {directory / path for step in store.all_steps() for path in store.files_of(step)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_newest_checkpoints_stay_restorable(tmp_path, strategy):
    variable, manager, expected = run(tmp_path, strategy=strategy, max_to_keep=3, base_every=4)
    assert manager.all_steps() == [7, 8, 9]
    for step in (8, 7, 9):
        manager.restore(step)
        assert tables.rows_of(variable) == expected[step]
    manager.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_file_stays_that_no_checkpoint_needs(tmp_path, strategy):
    _, manager, _ = run(tmp_path, strategy=strategy, max_to_keep=2, base_every=4)
    manager.close()
    files = {path for path in (tmp_path / "segments").rglob("*") if path.is_file()}
    assert files == files_needed(tmp_path)


def test_keep_period_keeps_steps_for_ever(tmp_path):
    variable, manager, expected = run(
        tmp_path, strategy="incremental", max_to_keep=2, keep_period=3, base_every=2
    )
    assert manager.all_steps() == [3, 6, 8, 9]
    for step in (3, 6):
        manager.restore(step)
        assert tables.rows_of(variable) == expected[step]
    manager.close()


def test_everything_is_kept_if_told_so(tmp_path):
    _, manager, _ = run(tmp_path, max_to_keep=None)
    assert manager.all_steps() == list(range(1, 10))
    manager.close()


def test_foreign_files_are_never_touched(tmp_path):
    foreign = [
        tmp_path / "notes.txt",
        tmp_path / "manifest.json",
        tmp_path / "manifest-3.json",
        tmp_path / "segments" / "readme",
        tmp_path / "segments" / "backup" / "g0-s0of1-base.acp",
        tmp_path / "events.out.tfevents",
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    _, manager, _ = run(tmp_path, strategy="full", max_to_keep=1)
    (attempt,) = [p for p in (tmp_path / "segments").iterdir() if p.name.startswith("00")]
    (attempt / "my notes").write_text("mine")
    manager.save(10)
    manager.close()
    for path in (*foreign, attempt / "my notes"):
        assert path.read_text() == "mine"
    assert [path.name for path in attempt.iterdir()] == ["my notes"]


def test_chain_in_use_is_kept_while_manifests_cannot_be_read(tmp_path):
    variable, manager, expected = run(tmp_path, strategy="incremental", max_to_keep=2)
    broken = tmp_path / "manifest-0000000000000008.json"
    good = broken.read_bytes()
    broken.write_bytes(good[:100])
    manager.save(10)
    manager.wait()
    manager.save(11)
    manager.wait()
    assert CheckpointStore(tmp_path).all_steps()[-2:] == [10, 11]
    manager.restore(11)
    assert tables.rows_of(variable) == expected[9]
    manager.close()


def test_garbage_of_a_killed_trainer_is_collected(tmp_path):
    """What a trainer leaves that was killed in a save: half an attempt, half a manifest."""
    _, manager, _ = run(tmp_path, steps=2)
    manager.close()
    attempt = tmp_path / "segments" / "0000000000000003-0badcafe"
    attempt.mkdir()
    for name in ("g0-s0of2-base.acp", "dense.data-00000-of-00001.tempstate7", "dense.index"):
        (attempt / name).write_bytes(b"half")
    (tmp_path / "manifest-0000000000000003.json.tmp-0badcafe").write_bytes(b"{")
    variable = tables.make_variable(shards=2)
    manager = tables.manage(tmp_path, variable)
    assert manager.restore().step == 2
    manager.save(3)
    manager.close()
    assert not attempt.exists()
    assert not list(tmp_path.glob("*.tmp-*"))


def test_undeletable_garbage_is_told_but_the_checkpoint_is_saved(tmp_path):
    _, manager, _ = run(tmp_path, steps=3, strategy="full", max_to_keep=2)
    # A directory under the name of a segment cannot be unlinked.
    (oldest, *_) = sorted((tmp_path / "segments").iterdir())
    segment = oldest / "g0-s0of2-base.acp"
    segment.unlink()
    segment.mkdir()
    manager.save(4)
    with pytest.raises(errors.CheckpointFailedError, match="Step 4 is saved, but old checkpoints"):
        manager.wait()
    assert manager.all_steps() == [3, 4]
    segment.rmdir()
    manager.save(5)
    manager.close()
    assert not oldest.exists()


def test_retention_rests_between_frequent_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "_RETENTION_RESTS_SECS", 3600.0)
    collected = []
    real = saving.collect
    monkeypatch.setattr(saving, "collect", lambda *a, **k: collected.append(1) or real(*a, **k))
    _, manager, _ = run(tmp_path, max_to_keep=1)
    assert manager.all_steps() == [9]
    assert len(collected) == 2  # after the first, and when `wait` had nothing else to wait for
    manager.close()
