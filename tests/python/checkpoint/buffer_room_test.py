# SPDX-License-Identifier: Apache-2.0
"""A buffer of bounded size: what goes first, when training waits, and that nothing is lost."""

import threading
import time

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.tracking import most_bytes
from tests.support import tables, two_tiers
from tests.support.stores import slow_store
from tests.support.two_tiers import files_of, segment_bytes, steps_in, stop_answering

ROWS = 2000
# One checkpoint of the run takes less, two take more.
ROOM = 200_000


@pytest.fixture
def run(tmp_path):
    with two_tiers.running(tmp_path) as run:
        yield run


def manage(run, **options):
    return run.manage(**{"local_bytes": ROOM, "strategy": "full", **options})


def test_uploaded_files_make_room_the_oldest_first(run):
    manager = manage(run, strategy="incremental", base_every=None, local_bytes=2 * ROOM)
    for step in range(1, 8):
        run.save(manager, step, rows=ROWS)
        manager.wait()
        assert segment_bytes(run.local) <= 2 * ROOM
    assert manager.storage.room_wait_secs == 0
    assert manager.storage.local_bytes == segment_bytes(run.local)
    here = {name.split("/")[1][:16] for name in files_of(run.local) if "segments" in name}
    assert here and max(here) == f"{7:016d}" and f"{1:016d}" not in here
    assert steps_in(run.remote) == steps_in(run.local) == list(range(1, 8))
    manager.close()
    # Some files are here, others there.
    for step in (1, 4, 7):
        assert run.restored(step, local_bytes=ROOM) == run.expected[step]


def test_training_waits_for_uploads_and_says_so(run, caplog):
    manager = manage(run, upload_patience_secs=60.0)
    run.save(manager, 1, rows=ROWS)
    manager.wait()
    stop_answering()
    run.save(manager, 2, rows=ROWS)
    back = threading.Timer(1.0, slow_store.configure)
    back.start()
    start = time.monotonic()
    step = 3
    while manager.storage.room_wait_secs == 0:
        assert time.monotonic() - start < 60
        run.save(manager, step, rows=ROWS)
        step += 1
    back.join()
    report = manager.reports[-1]
    assert 0 < report.room_wait_ms <= report.stall_ms
    assert "training waits: the buffer" in caplog.text
    assert segment_bytes(run.local) <= ROOM
    manager.close()
    assert run.restored() == run.expected[step - 1]


def test_full_buffer_of_a_dead_store_is_an_error_and_loses_nothing(run):
    manager = manage(run)
    run.save(manager, 1, rows=ROWS)
    manager.wait()
    stop_answering()
    with pytest.raises(errors.CheckpointFailedError, match="not begun") as info:
        for step in range(2, 9):
            run.save(manager, step, rows=ROWS)
    for part in (str(run.local), f"local_bytes={ROOM}", "not uploaded"):
        assert part in str(info.value)
    slow_store.configure()
    run.save(manager, 10, rows=ROWS)
    manager.close()
    assert steps_in(run.remote)[-1] == 10
    assert run.restored() == run.expected[10]


def test_buffer_that_cannot_be_looked_at_fails_one_checkpoint(run):
    manager = manage(run)
    run.save(manager, 1, rows=ROWS)
    manager.wait()
    stop_answering()
    run.save(manager, 2, rows=ROWS)
    # So there is no room, and what may be deleted is asked of a directory that is a file.
    aside = run.local.rename(run.local.with_name("aside"))
    run.local.write_text("in the way")
    with pytest.raises(errors.CheckpointFailedError, match=r"not begun.*next one.*buffer"):
        for _ in range(2):
            with run.upload_may_fail():
                manager.save(3)
    run.local.unlink()
    aside.rename(run.local)
    slow_store.configure()
    run.save(manager, 4, rows=ROWS)
    manager.close()
    assert run.restored() == run.expected[4]


def test_checkpoint_that_is_larger_than_the_buffer_goes_to_the_directory(run, caplog):
    manager = manage(run, strategy="incremental", base_every=None, local_bytes=2 * ROOM)
    run.save(manager, 1, rows=8 * ROWS)
    manager.wait()
    assert "does not fit into the buffer" in caplog.text
    assert segment_bytes(run.local) == 0
    assert segment_bytes(run.remote) > 2 * ROOM
    run.save(manager, 2, rows=ROWS)
    manager.wait()
    assert segment_bytes(run.local) > 0
    manager.close()
    for step in (1, 2):
        assert run.restored(step) == run.expected[step]


def test_checkpoints_that_newer_ones_replaced_make_room_too(run):
    manager = manage(run, local_bytes=3 * ROOM)
    slow_store.configure(latency_secs=0.02)
    for step in range(1, 20):
        run.save(manager, step, rows=ROWS)
        assert segment_bytes(run.local) <= 3 * ROOM
    manager.wait()
    assert manager.storage.superseded > 0
    manager.close()
    assert run.restored() == run.expected[19]


def test_what_lies_in_the_buffer_at_the_start_counts(run):
    manager = manage(run, local_bytes=None)
    run.save(manager, 1, rows=ROWS)
    manager.close()
    manager = manage(run)
    assert manager.storage.local_bytes == segment_bytes(run.local)


@pytest.mark.parametrize("shards", [1, 3])
def test_room_is_asked_for_what_is_written_and_little_more(tmp_path, shards):
    variable = tables.make_variable(dim=16, shards=shards)
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    for step, rows in enumerate((3000, 50000, 10), start=1):
        tables.fill(variable, range(rows), seed=step)
        groups = [tables.group_of(variable)]
        stats = tables.stats_of(variable)
        asked = most_bytes(groups, stats, {}, base=step == 1)
        manager.save(step)
        manager.wait()
        written = manager.reports[-1].bytes
        assert written <= asked <= 1.5 * written + shards * 40_000
    manager.close()
