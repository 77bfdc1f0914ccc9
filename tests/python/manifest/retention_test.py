# SPDX-License-Identifier: Apache-2.0
"""Retention: kept checkpoints stay complete whatever happens, foreign files are never touched."""

import contextlib
import os
import shutil
import tempfile
import uuid
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore, collect, discard_attempt, plan_deletions
from adaptcp_tf._src.storage import files
from tests.python.manifest.samples import Trainer

FOREIGN = [
    "notes.txt",
    "manifest-12.json",
    "manifest-0000000000000010.json.bak",
    "manifest-0000000000000010.json.tmp-mine",
    "checkpoint",
    "model.index",
    "segments/readme",
    "segments/0000000000000010-backup/g0-s0of2-base.acp",
    "segments/10-0badcafe/g0-s0of2-base.acp",
    "segments/0000000000000010-0badcafe/my notes",
    "segments/0000000000000010-0badcafe/g0-s0of2-base.acp.bak",
    "segments/0000000000000010-0badcafe/inner/g0-s0of2-base.acp",
    "other/segments/0000000000000010-0badcafe/g0-s0of2-base.acp",
]

shard_sets = st.sets(st.integers(0, 1))
saves = st.lists(
    st.tuples(st.sampled_from(["base", "delta", "delta", "delta"]), shard_sets, shard_sets),
    max_size=7,
)


class Crash(BaseException):
    """The end of the process."""


@contextlib.contextmanager
def crash_after(calls):
    """Lets a number of deletions pass and ends the process, so to speak, at the next one."""
    left = calls

    def mortal(function):
        def call(path):
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1
            return function(path)

        return call

    with (
        mock.patch.object(files, "delete_file", mortal(files.delete_file)),
        mock.patch.object(files, "delete_dir_if_empty", mortal(files.delete_dir_if_empty)),
        mock.patch.object(files, "sync_dir", mortal(files.sync_dir)),
    ):
        yield


@pytest.fixture(scope="module")
def fast_disk():
    """Skips fsync, which properties over many directories do not need."""
    with mock.patch.object(os, "fsync", lambda descriptor: None):
        yield


def trained(directory, history=()):
    trainer = Trainer(directory)
    trainer.save("base")
    for kind, increments, differentials in history:
        trainer.save(kind, increments, differentials)
    return trainer


def tree(directory):
    """Returns relative path -> content of every file below a directory."""
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = file.read()
    return found


def add_foreign_files(directory):
    for name in FOREIGN:
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name.encode())


def foreign_files_are_there(directory):
    found = tree(directory)
    return all(found.get(name) == name.encode() for name in FOREIGN)


def needed(store):
    """Returns the files that the checkpoints of a store consist of, manifests among them."""
    paths = {os.path.basename(store.manifest_path(step)) for step in store.all_steps()}
    for step in store.all_steps():
        paths.update(store.read(step).files())
    return paths


def assert_complete(directory, steps):
    store = CheckpointStore(directory)
    for step in store.all_steps():
        store.validate(store.read(step))
    assert set(steps) <= set(store.all_steps())


# The plan.


@given(
    steps=st.sets(st.integers(0, 60), max_size=12),
    max_to_keep=st.none() | st.integers(1, 6),
    keep_period=st.none() | st.integers(1, 9),
)
def test_plan_keeps_the_newest_and_the_periodic(steps, max_to_keep, keep_period):
    plan = plan_deletions(
        {step: [f"own{step}", "shared"] for step in steps}, max_to_keep, keep_period
    )
    assert sorted(plan.keep_steps + plan.delete_steps) == sorted(steps)
    newer = {step: sum(other > step for other in steps) for step in steps}
    for step in steps:
        is_newest = max_to_keep is None or newer[step] < max_to_keep
        is_periodic = keep_period is not None and step % keep_period == 0
        assert (step in plan.keep_steps) == (is_newest or is_periodic)
    expected = {f"own{step}" for step in plan.keep_steps} | ({"shared"} if steps else set())
    assert plan.keep_paths == expected


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True])
@pytest.mark.parametrize("name", ["max_to_keep", "keep_period"])
def test_numbers_that_cannot_be_are_refused(name, value):
    options = {"max_to_keep": 1, name: value}
    with pytest.raises(errors.InvalidOptionError, match=f"Invalid value for {name}"):
        plan_deletions({1: []}, **options)


# Deletion on disk.


@settings(max_examples=60)
@given(
    history=saves,
    max_to_keep=st.integers(1, 4),
    keep_period=st.none() | st.sampled_from([20, 30]),
    crash=st.integers(0, 40),
    name=st.sampled_from(["run", "run-1", "a - b", "ünïcødé 試験"]),
)
def test_crash_at_any_deletion_leaves_kept_checkpoints_and_foreign_files(
    fast_disk, history, max_to_keep, keep_period, crash, name
):
    with tempfile.TemporaryDirectory() as parent:
        directory = os.path.join(parent, name)
        store = trained(directory, history).store
        add_foreign_files(directory)
        store.new_attempt_dir(999)  # A save that was killed before it wrote anything.
        options = {"max_to_keep": max_to_keep, "keep_period": keep_period}
        plan = plan_deletions({s: store.files_of(s) for s in store.all_steps()}, **options)
        with contextlib.suppress(Crash), crash_after(crash):
            collect(store, **options)
        assert_complete(directory, plan.keep_steps)
        assert foreign_files_are_there(directory)

        report = collect(CheckpointStore(directory), **options)
        assert report.kept_steps == plan.keep_steps
        assert report.unreadable == ()
        assert CheckpointStore(directory).all_steps() == list(plan.keep_steps)
        assert_complete(directory, plan.keep_steps)
        assert set(tree(directory)) == needed(store) | set(FOREIGN)


def test_manifests_are_durably_gone_before_segments_are_deleted(tmp_path):
    trainer = trained(tmp_path, [("base", (), ()), ("base", (), ())])
    calls = []

    def traced(name, function):
        def call(path):
            calls.append((name, os.path.relpath(path, tmp_path)))
            return function(path)

        return call

    with (
        mock.patch.object(files, "delete_file", traced("delete", files.delete_file)),
        mock.patch.object(files, "sync_dir", traced("sync", files.sync_dir)),
    ):
        collect(trainer.store, max_to_keep=1)
    last_manifest = max(i for i, (_, path) in enumerate(calls) if path.startswith("manifest-"))
    first_segment = min(i for i, (_, path) in enumerate(calls) if path.endswith(".acp"))
    assert calls[last_manifest + 1] == ("sync", ".")
    assert last_manifest + 1 < first_segment


@settings(max_examples=20)
@given(
    first=saves, second=saves, names=st.sampled_from([("run", "run-1"), ("a", "a b"), ("1", "10")])
)
def test_stores_side_by_side_do_not_touch_each_other(fast_disk, first, second, names):
    with tempfile.TemporaryDirectory() as parent:
        one, other = (os.path.join(parent, name) for name in names)
        trained(other, second)
        before = tree(other)
        collect(trained(one, first).store, max_to_keep=1)
        assert tree(other) == before


def test_store_inside_the_directory_of_another_is_not_touched(tmp_path):
    outer = trained(tmp_path, [("base", (), ())])
    inner = [trained(tmp_path / "inner"), trained(tmp_path / "segments" / "inner")]
    before = [tree(trainer.store.directory) for trainer in inner]
    collect(outer.store, max_to_keep=1)
    assert [tree(trainer.store.directory) for trainer in inner] == before


def test_report_says_what_was_done(tmp_path):
    trainer = trained(tmp_path, [("base", (), ())])
    attempt = trainer.store.attempt_dirs()[0]
    report = collect(trainer.store, max_to_keep=1)
    assert (report.kept_steps, report.deleted_steps) == ((20,), (10,))
    assert set(report.deleted_files) == {
        f"{attempt}/{name}"
        for name in (
            "dense.data-00000-of-00001",
            "dense.index",
            "g0-s0of2-base.acp",
            "g0-s1of2-base.acp",
        )
    }
    assert not os.path.exists(trainer.store.path(attempt))


def test_copied_directory_is_collected_like_the_original(tmp_path):
    trainer = trained(tmp_path / "run", [("delta", (0,), (1,)), ("base", (), ())])
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    collect(trainer.store, max_to_keep=1)
    collect(CheckpointStore(tmp_path / "copy"), max_to_keep=1)
    assert tree(tmp_path / "copy") == tree(tmp_path / "run")


def test_remote_store_is_collected():
    directory = f"ram://{uuid.uuid4().hex}/run"
    trainer = trained(directory, [("base", (), ())])
    report = collect(trainer.store, max_to_keep=1)
    assert report.deleted_steps == (10,)
    assert len(trainer.store.attempt_dirs()) == 1
    trainer.store.validate(trainer.store.read(20))


def test_empty_store_has_nothing_to_collect(tmp_path):
    assert collect(CheckpointStore(tmp_path / "nothing"), max_to_keep=1).kept_steps == ()


def test_leftovers_of_killed_writers_are_collected(tmp_path):
    trainer = trained(tmp_path)
    attempt = trainer.store.new_attempt_dir(20)
    leftovers = [
        "manifest-0000000000000020.json.tmp-0badcafe",
        f"{attempt}/g0-s0of2-increment.acp",
        f"{attempt}/g0-s0of2-increment.acp.tmp-0badcafe",
        f"{attempt}/dense.index.tempstate1234567890",
        f"{attempt}/dense.data-00000-of-00001",
    ]
    for name in leftovers:
        files.write_durably(trainer.store.path(name), b"half")
    collect(trainer.store, max_to_keep=1)
    assert set(tree(tmp_path)) == needed(trainer.store)
    assert not os.path.exists(trainer.store.path(attempt))


# Saves in flight.


def test_attempt_in_flight_and_what_it_builds_on_are_protected(tmp_path):
    trainer = trained(tmp_path, [("delta", (0,), ())])
    earlier = trainer.last
    trainer.save("base")
    trainer.last = earlier  # The user went back to step 20 and goes on from there.
    manifest = trainer.write("delta", increments=[1])
    attempt = manifest.dense.prefix.rsplit("/", 1)[0]
    protected = [attempt, *(segment.path for segment in earlier.segments)]
    collect(trainer.store, max_to_keep=1, protected=protected)
    trainer.store.commit(manifest)
    trainer.store.validate(trainer.store.read(manifest.step))


def test_failed_attempt_is_discarded_at_once(tmp_path):
    trainer = trained(tmp_path)
    before = tree(tmp_path)
    manifest = trainer.write("delta", increments=[0, 1])
    attempt = manifest.dense.prefix.rsplit("/", 1)[0]
    assert len(discard_attempt(trainer.store, attempt)) == 4
    assert tree(tmp_path) == before
    assert discard_attempt(trainer.store, attempt) == ()


def test_attempt_that_was_committed_after_all_is_not_discarded(tmp_path):
    trainer = trained(tmp_path)
    before = tree(tmp_path)
    assert discard_attempt(trainer.store, trainer.store.attempt_dirs()[0]) == ()
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "attempt", ["", "segments", "segments/mine", "../0000000000000007-0badcafe"]
)
def test_only_attempts_can_be_discarded(tmp_path, attempt):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value for attempt"):
        discard_attempt(CheckpointStore(tmp_path), attempt)


def test_store_remembers_no_more_after_a_long_training(tmp_path):
    trainer = Trainer(tmp_path)
    remembered = []
    for number in range(1, 61):
        trainer.save("base" if number % 4 == 1 else "delta", increments=[0], differentials=[1])
        collect(trainer.store, max_to_keep=3)
        remembered.append(len(trainer.store.swept) + len(trainer.store._files))
    assert max(remembered) == max(remembered[:12])


# Manifests that cannot be read.


def damage(trainer, step):
    files.write_durably(trainer.store.manifest_path(step), b"{}")


def test_damaged_manifest_blocks_the_deletion_of_segments(tmp_path):
    trainer = trained(tmp_path, [("base", (), ()), ("base", (), ())])
    damage(trainer, 20)
    before = tree(tmp_path)
    store = CheckpointStore(tmp_path)
    report = collect(store, max_to_keep=1)
    assert report.deleted_steps == (10,)
    assert report.deleted_files == ()
    assert len(report.unreadable) == 1
    assert store.manifest_path(20) in report.unreadable[0]
    del before["manifest-0000000000000010.json"]
    assert tree(tmp_path) == before
    assert discard_attempt(store, store.attempt_dirs()[0]) == ()

    store.delete_manifest(20)
    assert len(collect(store, max_to_keep=1).deleted_files) == 8
    assert set(tree(tmp_path)) == needed(store)


def test_damaged_manifest_does_not_push_out_a_good_one(tmp_path):
    trainer = trained(tmp_path, [("base", (), ())])
    damage(trainer, 20)
    report = collect(CheckpointStore(tmp_path), max_to_keep=1)
    assert report.kept_steps == (10,)


def test_failed_deletion_is_an_error_and_can_be_repeated(tmp_path):
    trainer = trained(tmp_path, [("base", (), ())])

    def fail(path):
        raise errors.StoragePermissionError("Could not delete it.", path=path)

    with mock.patch.object(files, "delete_file", fail), pytest.raises(PermissionError):
        collect(trainer.store, max_to_keep=1)
    assert trainer.store.all_steps() == [10, 20]
    collect(trainer.store, max_to_keep=1)
    assert set(tree(tmp_path)) == needed(trainer.store)
