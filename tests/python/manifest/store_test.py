# SPDX-License-Identifier: Apache-2.0
"""The store: a checkpoint exists if and only if its manifest does, and then it is complete."""

import dataclasses
import errno
import os
import shutil
import signal
import threading
import uuid

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.storage import files, local_files
from tests.python.manifest import samples
from tests.python.manifest.samples import Trainer, encoded_after
from tests.python.storage.children import run

ODD_NAMES = ["run", "run-1", "a - b", "ünïcødé", "segments", "0000000000000010-0badcafe"]


@pytest.fixture
def trainer(tmp_path):
    """A trainer with a base (step 10) and a delta (step 20)."""
    trainer = Trainer(tmp_path / "run")
    trainer.save("base")
    trainer.save("delta", increments=[0, 1], differentials=[0])
    return trainer


def raiser(number):
    def fail(*unused):
        raise OSError(number, os.strerror(number))

    return fail


# Commit and read.


@pytest.mark.parametrize("name", ODD_NAMES)
def test_committed_checkpoints_are_read_back(tmp_path, name):
    trainer = Trainer(tmp_path / name)
    first = trainer.save("base")
    second = trainer.save("delta", increments=[1], differentials=[0, 1])
    store = CheckpointStore(tmp_path / name)
    assert store.all_steps() == [10, 20]
    assert store.latest_step() == 20
    assert [store.read(10), store.read(20)] == [first, second]
    store.validate(first)
    store.validate(second)


def test_remote_directory_works_alike():
    trainer = Trainer(f"ram://{uuid.uuid4().hex}/run", shards=1)
    trainer.save("base")
    last = trainer.save("delta", increments=[0])
    store = CheckpointStore(trainer.store.directory)
    assert store.all_steps() == [10, 20]
    assert store.read(20) == last
    store.validate(last)
    assert store.delete_manifest(20)
    assert store.all_steps() == [10]


def test_missing_and_empty_directories_hold_no_checkpoint(tmp_path):
    for store in (CheckpointStore(tmp_path), CheckpointStore(tmp_path / "nothing")):
        assert store.all_steps() == []
        assert store.latest_step() is None
        assert store.attempt_dirs() == []
    assert os.listdir(tmp_path) == []


def test_missing_step_is_an_error_that_lists_the_others(trainer):
    with pytest.raises(errors.CheckpointNotFoundError, match="Steps there: 10, 20") as caught:
        trainer.store.read(30)
    assert trainer.store.directory in str(caught.value)
    with pytest.raises(FileNotFoundError, match="Steps there: none"):
        CheckpointStore(trainer.store.path("nothing")).read(10)


def test_files_of_other_names_are_no_checkpoints(trainer):
    for name in (
        "manifest-10.json",
        "manifest-0000000000000030.json.bak",
        "manifest-0000000000000030.json.tmp-0badcafe",
        "xmanifest-0000000000000030.json",
        "manifest-000000000000003٣.json",
    ):
        files.write_durably(trainer.store.path(name), b"{}")
    assert trainer.store.all_steps() == [10, 20]


@pytest.mark.parametrize("step", [-1, 10**16, 1.5, "1", True, None])
def test_what_is_no_step_is_refused(trainer, step):
    for method in (trainer.store.read, trainer.store.new_attempt_dir, trainer.store.manifest_path):
        with pytest.raises(errors.InvalidOptionError, match="Invalid value for step"):
            method(step)


def test_largest_step_works(tmp_path):
    store = CheckpointStore(tmp_path)
    store.commit(dataclasses.replace(samples.empty_manifest(), step=10**16 - 1))
    assert store.latest_step() == 10**16 - 1


def test_step_is_not_replaced_unless_asked(trainer):
    changed = dataclasses.replace(trainer.last, counters={"iterations": 7})
    with pytest.raises(errors.CheckpointExistsError, match="step 20 exists already"):
        trainer.store.commit(changed)
    assert trainer.store.read(20) == trainer.last
    trainer.store.commit(changed, replace=True)
    assert trainer.store.read(20) == changed


def test_directory_that_was_copied_or_moved_still_loads(trainer, tmp_path):
    shutil.copytree(trainer.store.directory, tmp_path / "copy")
    os.rename(trainer.store.directory, tmp_path / "moved")
    for name in ("copy", "moved"):
        store = CheckpointStore(tmp_path / name)
        store.validate(store.read(store.latest_step()))


def test_store_survives_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = Trainer("run")
    monkeypatch.chdir("/")
    trainer.save("base")
    assert CheckpointStore(tmp_path / "run").all_steps() == [10]


# Damage.


@pytest.mark.parametrize("reader", ["read", "files_of"])
def test_damaged_manifest_is_listed_and_refused(trainer, reader):
    path = trainer.store.manifest_path(20)
    files.write_durably(path, files.read_bytes(path)[:-9])
    store = CheckpointStore(trainer.store.directory)
    assert store.all_steps() == [10, 20]
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        getattr(store, reader)(20)
    assert caught.value.path == path


def test_manifest_under_the_name_of_another_step_is_refused(trainer):
    os.rename(trainer.store.manifest_path(10), trainer.store.manifest_path(30))
    with pytest.raises(errors.CorruptCheckpointError, match="30, as in the file name") as caught:
        trainer.store.read(30)
    assert (caught.value.field, caught.value.received) == ("step", 10)


def every_file(trainer):
    return sorted(trainer.last.files())


def test_every_missing_file_is_named_with_its_step(trainer):
    for relative in every_file(trainer):
        path = trainer.store.path(relative)
        content = files.read_bytes(path)
        files.delete_file(path)
        with pytest.raises(errors.CorruptCheckpointError, match="step 20 is incomplete") as caught:
            trainer.store.validate(trainer.last)
        assert caught.value.path == path
        assert path in str(caught.value)
        files.write_durably(path, content)
    trainer.store.validate(trainer.last)


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"x"])
def test_every_file_of_another_size_is_named(trainer, change):
    for relative in every_file(trainer):
        path = trainer.store.path(relative)
        content = files.read_bytes(path)
        files.write_durably(path, change(content))
        with pytest.raises(errors.CorruptCheckpointError, match="step 20") as caught:
            trainer.store.validate(trainer.last)
        assert caught.value.path == path
        assert caught.value.received == len(change(content))
        files.write_durably(path, content)


def test_missing_directory_of_segments_is_an_error(trainer):
    shutil.rmtree(trainer.store.path("segments"))
    with pytest.raises(errors.CorruptCheckpointError, match="is missing"):
        trainer.store.validate(trainer.store.read(20))


# Commits that fail leave no trace; those that are killed leave the old state or the new one.


def test_incomplete_checkpoint_is_not_committed(trainer):
    manifest = trainer.write("delta", increments=[0])
    files.delete_file(trainer.store.path(manifest.segments[-1].path))
    with pytest.raises(errors.CorruptCheckpointError, match="step 30 is incomplete"):
        trainer.store.commit(manifest)
    assert trainer.store.all_steps() == [10, 20]


def test_chain_that_contradicts_itself_is_not_committed(trainer):
    manifest = trainer.write("delta", increments=[0])
    swapped = dataclasses.replace(manifest, segments=manifest.segments[::-1])
    with pytest.raises(errors.CorruptCheckpointError, match=r"segments\[\d\].interval"):
        trainer.store.commit(swapped)
    assert trainer.store.all_steps() == [10, 20]


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_failed_commit_leaves_no_trace_and_the_next_succeeds(trainer, monkeypatch, step, number):
    manifest = trainer.write("delta", increments=[0])
    before = os.listdir(trainer.store.directory)
    with monkeypatch.context() as patch:
        owner = local_files if step == "open" else os
        patch.setattr(owner, step, raiser(number), raising=False)
        with pytest.raises(errors.StorageError) as caught:
            trainer.store.commit(manifest)
    assert caught.value.errno == number
    assert os.listdir(trainer.store.directory) == before
    trainer.store.commit(manifest)
    assert trainer.store.read(30) == manifest


def test_manifest_whose_rename_may_be_lost_is_withdrawn(trainer, monkeypatch):
    manifest = trainer.write("delta", increments=[0])
    sync_dir = local_files.sync_dir

    def fail_after_rename(path):
        if os.path.exists(trainer.store.manifest_path(30)):
            raise OSError(errno.EIO, "Input/output error")
        sync_dir(path)

    monkeypatch.setattr(local_files, "sync_dir", fail_after_rename)
    with pytest.raises(errors.StorageError, match="Input/output error"):
        trainer.store.commit(manifest)
    assert trainer.store.all_steps() == [10, 20]


KILLED_COMMIT = """
import os, signal, sys
from adaptcp_tf._src.manifest import CheckpointStore, decode_manifest
from adaptcp_tf._src.storage import files, local_files
store = CheckpointStore(sys.argv[1])
manifest = decode_manifest(files.read_bytes(sys.argv[2]), sys.argv[2])
countdown = int(sys.argv[3])
def mortal(function):
    def call(*args, **options):
        global countdown
        countdown -= 1
        if countdown < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return call
os.fsync, os.replace = mortal(os.fsync), mortal(os.replace)
local_files.open = mortal(open)
store.commit(manifest)
"""


def test_commit_killed_at_any_system_call_leaves_old_or_new(trainer, tmp_path):
    manifest = trainer.write("delta", increments=[0, 1], differentials=[1])
    prepared = str(tmp_path / "prepared")
    files.write_durably(prepared, encoded_after(lambda body: None, manifest))
    store = CheckpointStore(trainer.store.directory)
    for calls in range(1, 20):  # The first is the reading of the prepared file.
        status = run(KILLED_COMMIT, store.directory, prepared, calls)
        assert store.all_steps() in ([10, 20], [10, 20, 30])
        for step in store.all_steps():
            store.validate(store.read(step))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        store.delete_manifest(30)
    assert calls > 4
    assert store.read(30) == manifest


def test_many_threads_commit_different_steps(tmp_path):
    store = CheckpointStore(tmp_path)
    steps = list(range(20))

    def commit(step):
        store.commit(dataclasses.replace(samples.empty_manifest(), step=step))

    threads = [threading.Thread(target=commit, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.all_steps() == steps


# Attempts.


def test_attempts_of_one_step_get_different_directories(tmp_path):
    store = CheckpointStore(tmp_path)
    attempts = {store.new_attempt_dir(7) for _ in range(5)}
    assert len(attempts) == 5
    assert sorted(attempts) == store.attempt_dirs()
    assert all(attempt.startswith("segments/0000000000000007-") for attempt in attempts)
    assert all(os.path.isdir(store.path(attempt)) for attempt in attempts)


def test_attempt_avoids_a_directory_that_exists(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    nonces = iter(["0badcafe", "0badcafe", "0badbeef"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(nonces))
    assert store.new_attempt_dir(7) != store.new_attempt_dir(7)


def test_deleted_checkpoint_is_gone(trainer):
    assert trainer.store.delete_manifest(20) is True
    assert trainer.store.delete_manifest(20) is False
    with pytest.raises(errors.CheckpointNotFoundError):
        trainer.store.files_of(20)
    assert trainer.store.latest_step() == 10


def test_several_checkpoints_are_deleted_for_one_sync(tmp_path, monkeypatch):
    trainer = Trainer(tmp_path)
    for _ in range(4):
        trainer.save("base")
    synced = []
    monkeypatch.setattr(files, "sync_dir", synced.append)
    assert trainer.store.delete_manifests([10, 30, 31]) == [10, 30]
    assert synced == [trainer.store.directory]
    assert trainer.store.all_steps() == [20, 40]


def test_deletion_of_several_that_fails_keeps_what_it_did(tmp_path, monkeypatch):
    trainer = Trainer(tmp_path)
    for _ in range(3):
        trainer.save("base")
    synced = []
    monkeypatch.setattr(files, "sync_dir", synced.append)
    os.remove(trainer.store.manifest_path(20))
    os.mkdir(trainer.store.manifest_path(20))
    with pytest.raises(errors.StorageError, match="manifest-0000000000000020"):
        trainer.store.delete_manifests([10, 20, 30])
    assert synced == [trainer.store.directory]
    assert not os.path.exists(trainer.store.manifest_path(10))
    assert os.path.exists(trainer.store.manifest_path(30))
