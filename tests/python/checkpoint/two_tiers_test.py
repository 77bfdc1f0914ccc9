# SPDX-License-Identifier: Apache-2.0
"""Checkpoints through an SSD buffer: what is where when, and what becomes of a failing store."""

import shutil

import pytest

from adaptcp_tf import errors
from tests.support import faults, processes, tables, two_tiers
from tests.support.stores import slow_store
from tests.support.two_tiers import files_of, segment_bytes, steps_in, stop_answering


@pytest.fixture
def run(tmp_path):
    with two_tiers.running(tmp_path) as run:
        yield run


def test_both_tiers_hold_the_same_files_in_the_end(run):
    manager = run.manage()
    for step in range(1, 7):
        run.save(manager, step)
        manager.wait()
    assert files_of(run.remote) == files_of(run.local)
    assert steps_in(run.remote) == [1, 2, 3, 4, 5, 6]
    manager.close()
    assert run.restored() == run.expected[6]
    assert run.restored(3) == run.expected[3]


def test_both_durable_steps_are_reported(run):
    manager = run.manage()
    assert (manager.storage.local_step, manager.storage.remote_step) == (None, None)
    run.save(manager, 1)
    manager.wait()
    # Of the stream: a first file takes a second and more.
    slow_store.configure(stream_bytes_per_sec=4000)
    run.save(manager, 2)
    assert (manager.storage.local_step, manager.storage.remote_step) == (2, 1)
    assert manager.reports[-1].seconds_to_uploaded is None
    slow_store.configure()
    manager.wait()
    assert (manager.storage.local_step, manager.storage.remote_step) == (2, 2)
    report = manager.reports[-1]
    assert 0 < report.seconds_to_durable < report.seconds_to_uploaded
    assert manager.storage.uploaded_bytes == sum(map(len, files_of(run.remote).values())) - sum(
        len(data) for name, data in files_of(run.remote).items() if name.startswith("manifest")
    )


def test_wait_is_for_the_directory_and_says_when_it_takes_longer(run):
    slow_store.configure(stream_bytes_per_sec=4000)
    manager = run.manage()
    run.save(manager, 1)
    with pytest.raises(TimeoutError, match=r"not durable after 0.05 s"):
        manager.wait(0.05)
    assert steps_in(run.remote) == []
    manager.wait()
    assert steps_in(run.remote) == [1]


def test_of_those_that_wait_only_the_newest_is_uploaded(run):
    manager = run.manage(keep_period=3)
    slow_store.configure(latency_secs=0.02)
    for step in range(1, 9):
        run.save(manager, step)
    manager.wait()
    # The first was under way, and those of the period are kept.
    assert {1, 3, 6, 8} <= set(steps_in(run.remote)) <= {1, 2, 3, 6, 8}
    assert manager.storage.superseded == 8 - len(steps_in(run.remote))
    assert steps_in(run.local) == list(range(1, 9))
    manager.close()
    for step in steps_in(run.remote):
        assert run.restored(step) == run.expected[step]


@pytest.mark.parametrize("seed", range(5))
def test_store_that_fails_at_times_gets_everything(run, seed):
    manager = run.manage(upload_patience_secs=60.0)
    slow_store.configure(failure_rate=0.1, seed=seed)
    for step in range(1, 5):
        run.save(manager, step)
    manager.wait()
    assert manager.storage.upload_retries > 0
    slow_store.configure()
    manager.close()
    assert run.restored() == run.expected[4]
    assert not list(run.remote.rglob("*.tmp-*"))


def test_training_goes_on_while_the_store_is_away(run):
    manager = run.manage(upload_patience_secs=60.0)
    run.save(manager, 1)
    manager.wait()
    stop_answering()
    for step in (2, 3, 4):
        run.save(manager, step)
    assert (manager.storage.local_step, manager.storage.remote_step) == (4, 1)
    assert manager.take_failure() is None
    slow_store.configure()
    manager.wait()
    assert manager.storage.remote_step == 4
    manager.close()
    assert run.restored() == run.expected[4]


def test_upload_that_was_given_up_is_told_and_tried_again(run):
    manager = run.manage()
    run.save(manager, 1)
    manager.wait()
    stop_answering()
    run.save(manager, 2)
    with pytest.raises(errors.CheckpointFailedError, match="step 2 could not be uploaded") as info:
        manager.wait()
    for part in (run.directory, str(run.local), "injected failure", "tried again"):
        assert part in str(info.value)
    slow_store.configure()
    run.save(manager, 3)
    manager.wait()
    assert {1, 3} <= set(steps_in(run.remote))
    manager.close()
    assert run.restored() == run.expected[3]


def test_what_was_not_uploaded_is_uploaded_by_the_next_manager(run):
    manager = run.manage()
    run.save(manager, 1)
    manager.wait()
    stop_answering()
    run.save(manager, 2)
    run.save(manager, 3)
    run.close_while_away(manager)
    assert steps_in(run.remote) == [1]
    fresh = tables.make_variable()
    manager = run.manage(fresh)
    assert manager.latest_step() == 3
    manager.wait()
    assert steps_in(run.remote) == [1, 3]
    manager.restore()
    assert tables.rows_of(fresh) == run.expected[3]


def test_files_that_arrived_are_not_uploaded_again(run):
    manager = run.manage()
    stop_answering()
    run.save(manager, 1, rows=5000)
    run.close_while_away(manager)
    # As a process leaves it that was killed between the segments and the manifest.
    (segment,) = run.local.rglob("*.acp")
    there = run.remote / segment.relative_to(run.local)
    there.parent.mkdir(parents=True)
    there.write_bytes(segment.read_bytes())
    manager = run.manage()
    manager.wait()
    assert steps_in(run.remote) == [1]
    assert manager.storage.uploaded_bytes < segment.stat().st_size
    manager.close()
    assert run.restored() == run.expected[1]


def test_half_a_file_is_uploaded_again(run):
    manager = run.manage()
    stop_answering()
    run.save(manager, 1)
    run.close_while_away(manager)
    (segment,) = run.local.rglob("*.acp")
    there = run.remote / segment.relative_to(run.local)
    there.parent.mkdir(parents=True)
    there.write_bytes(segment.read_bytes()[:100])
    run.manage().close()
    assert files_of(run.remote) == files_of(run.local)


def test_empty_local_disk_restores_from_the_directory_and_goes_on(run):
    manager = run.manage()
    for step in (1, 2, 3):
        run.save(manager, step)
    manager.close()
    shutil.rmtree(run.local)
    fresh = tables.make_variable()
    manager = run.manage(fresh)
    manager.restore()
    assert tables.rows_of(fresh) == run.expected[3]
    run.variable = fresh
    run.save(manager, 4)
    manager.wait()
    assert manager.reports[-1].kind == "delta"
    manager.close()
    assert run.restored() == run.expected[4]
    shutil.rmtree(run.local)
    assert run.restored() == run.expected[4]


def test_restore_reads_the_local_copy(run):
    manager = run.manage()
    for step in (1, 2, 3):
        run.save(manager, step, rows=5000)
    manager.close()
    fresh = tables.make_variable()
    manager = run.manage(fresh)
    slow_store.configure()
    manager.restore()
    assert tables.rows_of(fresh) == run.expected[3]
    # Manifests are read, to see that the buffer is not out of date, but no segment.
    smallest = min(path.stat().st_size for path in run.remote.rglob("*.acp"))
    assert slow_store.counters().bytes_read < smallest / 2


def test_file_that_is_damaged_here_is_read_there(run):
    manager = run.manage()
    run.save(manager, 1)
    manager.close()
    (segment,) = run.local.rglob("*.acp")
    faults.truncate(segment, 50)
    assert run.restored() == run.expected[1]


def test_file_that_is_nowhere_is_named(run):
    manager = run.manage()
    run.save(manager, 1)
    manager.close()
    for tier in (run.local, run.remote):
        (segment,) = tier.rglob("*.acp")
        segment.unlink()
    with pytest.raises(errors.CorruptCheckpointError, match=r"increment.acp|base.acp"):
        run.restored()


def test_retention_is_the_same_on_both_tiers(run):
    manager = run.manage(max_to_keep=2, keep_period=4)
    for step in range(1, 8):
        run.save(manager, step)
        manager.wait()
    manager.close()
    assert steps_in(run.remote) == steps_in(run.local) == [4, 6, 7]
    assert files_of(run.remote) == files_of(run.local)
    for step in (4, 6, 7):
        assert run.restored(step) == run.expected[step]


def test_deleting_newer_checkpoints_deletes_them_on_both_tiers(run):
    manager = run.manage()
    for step in (1, 2, 3):
        run.save(manager, step)
    manager.delete_newer(1)
    assert steps_in(run.remote) in ([], [1])
    assert steps_in(run.local) == [1]
    run.save(manager, 2)
    manager.close()
    assert run.restored() == run.expected[2]


def test_segment_that_rots_in_the_buffer_is_told_and_the_next_checkpoint_is_whole(run):
    manager = run.manage()
    stop_answering()
    run.save(manager, 1)
    with pytest.raises(errors.CheckpointFailedError):
        manager.wait()
    (segment,) = run.local.rglob("*.acp")
    segment.unlink()
    slow_store.configure()
    with pytest.raises(errors.CheckpointFailedError, match="but damaged") as info:
        manager.wait()
    assert segment.name in str(info.value)
    run.save(manager, 2)
    assert manager.reports[-1].kind == "base"
    manager.close()
    shutil.rmtree(run.local)
    assert run.restored() == run.expected[2]


def test_full_buffer_disk_fails_one_checkpoint(run, tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk:
        run.local = disk.path / "buffer"
        manager = run.manage()
        run.save(manager, 1)
        with disk.full(), pytest.raises(errors.CheckpointFailedError, match="step 2"):
            run.save(manager, 2, rows=20000)
        run.save(manager, 3)
        manager.close()
        assert run.restored() == run.expected[3]
        assert steps_in(run.remote)[-1] == 3


def test_trainer_that_went_on_elsewhere_leaves_this_buffer_behind(run, caplog):
    manager = run.manage()
    run.save(manager, 1)
    manager.wait()
    stop_answering()
    run.save(manager, 5)
    run.close_while_away(manager)
    here, run.local = run.local, run.local.with_name("another-machine")
    fresh = tables.make_variable()
    manager = run.manage(fresh)
    assert manager.restore().step == 1
    run.variable = fresh
    run.save(manager, 3)
    manager.close()
    run.local = here
    assert run.manage().latest_step() == 3
    run.managers.close()
    assert "step 5" in caplog.text
    assert run.restored() == run.expected[3]


def test_buffer_of_another_run_is_refused(run):
    run.manage().close()
    run.directory = slow_store.url(run.remote / "other")
    with pytest.raises(errors.InvalidOptionError, match="the buffer of") as info:
        run.manage()
    assert slow_store.url(run.remote) in str(info.value)
    # Nothing stays locked.
    run.directory = slow_store.url(run.remote)
    run.manage()


def test_buffer_that_another_trainer_uses_is_refused(run):
    run.manage()
    run.directory = slow_store.url(run.remote / "other")
    with pytest.raises(errors.DirectoryLockedError, match="buffer"):
        run.manage()


@pytest.mark.parametrize("local_dir", ["slow:///tmp/buffer", "", "same"])
def test_buffer_must_be_another_directory_on_a_disk(run, local_dir):
    if local_dir == "same":
        run.directory = local_dir = str(run.local)
    with pytest.raises(errors.InvalidOptionError, match="local_dir|path"):
        run.manage(local_dir=local_dir)


def test_local_bytes_needs_a_buffer(run):
    with pytest.raises(errors.InvalidOptionError, match="local_bytes"):
        run.manage(local_dir=None, local_bytes=1000)


def test_directory_may_be_local_too(run):
    run.directory = str(run.remote)
    manager = run.manage()
    for step in (1, 2):
        run.save(manager, step)
    manager.close()
    assert files_of(run.remote) == files_of(run.local)


def test_script_that_ends_without_waiting_uploads_its_last_checkpoint(tmp_path):
    processes.run(SCRIPT, tmp_path)
    assert steps_in(tmp_path / "remote") == [1]


SCRIPT = """
import sys
from pathlib import Path
from tests.support import tables
folder = Path(sys.argv[1])
variable = tables.make_variable()
manager = tables.manage(folder / "remote", variable, local_dir=str(folder / "buffer"))
tables.fill(variable, range(50_000))
manager.save(1)
"""


def test_leftovers_of_a_killed_save_take_no_room(run):
    manager = run.manage()
    run.save(manager, 1)
    manager.close()
    attempt = run.local / "segments" / f"{2:016d}-0badcafe"
    attempt.mkdir()
    (attempt / "g0-s0of1-base.acp").write_bytes(bytes(1 << 20))
    before = segment_bytes(run.local)
    manager = run.manage(local_bytes=200_000)
    assert not attempt.exists()
    assert manager.storage.local_bytes == before - (1 << 20)


def test_kept_steps_are_uploaded_by_the_next_manager_too(run):
    manager = run.manage(keep_period=2)
    run.save(manager, 1)
    manager.wait()
    stop_answering()
    for step in (2, 3):
        run.save(manager, step)
    run.close_while_away(manager)
    run.manage(keep_period=2).wait()
    assert steps_in(run.remote) == [1, 2, 3]


def test_restored_checkpoint_stays_until_the_next_is_built_on_it(run):
    manager = run.manage(max_to_keep=None)
    for step in (1, 2, 3):
        run.save(manager, step)
        manager.wait()
    stop_answering()
    run.save(manager, 4)
    run.close_while_away(manager)
    (first,) = run.local.glob(f"segments/{1:016d}-*")
    shutil.rmtree(first)
    fresh = tables.make_variable()
    manager = run.manage(fresh, max_to_keep=1)
    manager.restore(1)
    assert tables.rows_of(fresh) == run.expected[1]
    manager.wait()
    run.variable = fresh
    run.save(manager, 5)
    manager.wait()
    assert manager.reports[-1].kind == "delta"
    manager.close()
    assert run.restored(5) == run.expected[5]


def test_damaged_manifest_in_one_tier_hides_nothing_else(run):
    manager = run.manage()
    for step in (1, 2, 3):
        run.save(manager, step)
        manager.wait()
    manager.close()
    for tier in (run.local, run.remote):
        faults.truncate(tier / f"manifest-{3:016d}.json", 100)
        assert run.manage().all_steps() == [1, 2, 3]
        run.managers.close()
        assert run.restored(2) == run.expected[2]
