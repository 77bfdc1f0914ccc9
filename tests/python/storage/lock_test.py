# SPDX-License-Identifier: Apache-2.0
"""The lock: one writer per directory, and a killed writer is replaced at once."""

import contextlib
import os
import signal
import threading
import time

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.storage import kernel_lock, lock
from adaptcp_tf._src.storage.lock import LOCK_NAME, DirectoryLock
from adaptcp_tf._src.storage.process import current_process
from tests.python.storage.children import run, start
from tests.python.storage.holders import holder, other_host, refused, write_lock

HOLD = """
import sys, time
from adaptcp_tf._src.storage.lock import DirectoryLock
lock = DirectoryLock(sys.argv[1]).acquire()
print("held", flush=True)
time.sleep(600)
"""

# Leaves a child behind that inherited the open lock file, as data loaders do.
HOLD_AND_FORK = HOLD.replace(
    'print("held"', "import os\nif os.fork() == 0:\n    time.sleep(600)\nprint('held'"
)

RACE = """
import os, sys, time
from adaptcp_tf import errors
from adaptcp_tf._src.storage.lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    lock.acquire()
    print("won", flush=True)
except errors.DirectoryLockedError:
    print("lost", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def child(tmp_path):
    """A process that holds the lock of `tmp_path`."""
    process = start(HOLD, tmp_path)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


# One at a time.


@pytest.mark.parametrize("name", ["run", "run-1", "two words", "ünïcødé"])
def test_second_manager_in_one_process_is_refused_until_release(tmp_path, name):
    directory = tmp_path / name
    first = DirectoryLock(directory).acquire()
    assert "another manager of this process" in str(refused(directory))
    first.release()
    with DirectoryLock(directory) as second:
        assert second.held
    assert os.listdir(directory) == []


def test_symbolic_link_to_the_directory_is_no_way_around(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with DirectoryLock(tmp_path / "run"):
        refused(tmp_path / "link")


def test_directories_do_not_lock_each_other(tmp_path):
    with DirectoryLock(tmp_path / "run-1") as one, DirectoryLock(tmp_path / "run-10") as ten:
        one.check()
        ten.check()


def test_acquire_and_release_can_be_repeated(tmp_path):
    mine = DirectoryLock(tmp_path)
    for _ in range(3):
        assert mine.acquire() is mine
        assert mine.acquire() is mine
        mine.check()
        mine.release()
        mine.release()


def test_live_process_is_refused_with_its_host_pid_and_time(tmp_path, child):
    error = refused(tmp_path)
    assert (error.pid, error.host) == (child.pid, current_process().host)
    assert error.directory == str(tmp_path)
    assert f"process {child.pid} on host" in str(error)
    assert "UTC" in str(error)
    assert "stop that process or choose another directory" in str(error)


@pytest.mark.parametrize("threads", [8])
def test_of_many_threads_one_wins(tmp_path, threads):
    for attempt in range(20):
        directory = tmp_path / str(attempt)
        outcomes = []
        barrier = threading.Barrier(threads)

        def contend(directory=directory, barrier=barrier, outcomes=outcomes):
            mine = DirectoryLock(directory)
            barrier.wait()
            try:
                outcomes.append(mine.acquire())
            except errors.DirectoryLockedError:
                outcomes.append(None)

        workers = [threading.Thread(target=contend) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        winners = [winner for winner in outcomes if winner is not None]
        assert len(winners) == 1
        winners[0].check()
        assert os.listdir(directory) == [LOCK_NAME]


# The dead make room.


def test_killed_process_is_replaced_at_once(tmp_path, child):
    child.kill()
    child.wait()
    began = time.monotonic()
    with DirectoryLock(tmp_path) as mine:
        mine.check()
    assert time.monotonic() - began < 1


def test_killed_process_that_nobody_waited_for_is_replaced(tmp_path, child):
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # It is a zombie now.
    with DirectoryLock(tmp_path) as mine:
        mine.check()


def test_killed_process_with_surviving_children_is_replaced(tmp_path):
    process = start(HOLD_AND_FORK, tmp_path)
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    try:
        descriptor = kernel_lock.open_existing(str(tmp_path / LOCK_NAME))
        assert kernel_lock.try_lock(descriptor) is False
        os.close(descriptor)
        with DirectoryLock(tmp_path) as mine:
            mine.check()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_of_many_processes_one_takes_over_from_the_dead(tmp_path):
    write_lock(tmp_path, holder(start_ticks=0))
    racers = [start(RACE, tmp_path) for _ in range(6)]
    try:
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("\n")
            racer.stdin.flush()
        outcomes = [racer.stdout.readline() for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert sorted(outcomes) == ["lost\n"] * 5 + ["won\n"]


def test_pid_that_was_given_to_another_process_is_no_holder(tmp_path):
    write_lock(tmp_path, holder(start_ticks=1))
    with DirectoryLock(tmp_path) as mine:
        mine.check()


def test_host_that_was_booted_since_is_no_holder(tmp_path):
    write_lock(tmp_path, holder(boot_id="an earlier one"))
    with DirectoryLock(tmp_path) as mine:
        mine.check()


def test_container_that_was_killed_is_replaced_because_the_kernel_freed_its_lock(tmp_path):
    write_lock(tmp_path, holder(pid_namespace="pid:[1]", host="other container"))
    with DirectoryLock(tmp_path) as mine:
        mine.check()


def test_container_that_lives_is_refused(tmp_path, child):
    with open(tmp_path / LOCK_NAME, "r+b") as file:  # In place: the child keeps its kernel lock.
        file.write(holder(pid_namespace="pid:[1]", pid=2**22 + 1).encode())
        file.truncate()
    assert refused(tmp_path).pid == 2**22 + 1
    child.kill()
    child.wait()
    with DirectoryLock(tmp_path) as mine:
        mine.check()


def test_container_without_kernel_lock_cannot_be_judged(tmp_path):
    write_lock(tmp_path, holder(pid_namespace="pid:[1]", kernel_locked=False))
    refused(tmp_path)


def test_leftovers_of_a_process_killed_while_locking_are_removed(tmp_path):
    leftover = tmp_path / f"{LOCK_NAME}.tmp-0badcafe"
    leftover.write_bytes(b"{")
    foreign = tmp_path / f"{LOCK_NAME}.tmp-notes"
    foreign.write_bytes(b"mine")
    with DirectoryLock(tmp_path):
        assert not leftover.exists()
        assert foreign.exists()


def test_lock_that_another_process_took_over_first_is_refused(tmp_path, monkeypatch):
    write_lock(tmp_path, holder(start_ticks=0))
    is_abandoned = lock._is_abandoned
    faster = DirectoryLock(tmp_path)

    def judge_slowly(found, free):
        verdict = is_abandoned(found, free)
        if not faster.held:
            monkeypatch.undo()
            with monkeypatch.context() as patch:
                patch.setattr(lock, "_acquiring", contextlib.nullcontext())
                faster.acquire(steal=True)
        return verdict

    monkeypatch.setattr(lock, "_is_abandoned", judge_slowly)
    refused(tmp_path)
    faster.check()


def test_lock_that_another_process_created_first_is_refused(tmp_path, monkeypatch):
    faster = DirectoryLock(tmp_path).acquire()

    def look_too_early(path):
        monkeypatch.undo()

    monkeypatch.setattr(kernel_lock, "open_existing", look_too_early)
    refused(tmp_path)
    faster.check()


# What cannot be judged is refused, but can be stolen.


def test_other_host_is_refused_by_name(tmp_path):
    write_lock(tmp_path, other_host())
    error = refused(tmp_path)
    assert (error.host, error.pid) == ("elsewhere", 4711)
    assert "2023-11-14 22:13:20 UTC" in str(error)
    assert str(tmp_path / LOCK_NAME) in str(error)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"null", b"[1]", b"\xff", holder(pid=0), holder(wall_time="x")]
)
def test_lock_file_that_cannot_be_read_is_refused(tmp_path, content):
    write_lock(tmp_path, content)
    assert "not a lock file of adaptcp_tf" in str(refused(tmp_path))
    with DirectoryLock(tmp_path).acquire(steal=True) as mine:
        mine.check()


def test_lock_can_be_stolen_and_the_robbed_finds_out(tmp_path):
    robbed = DirectoryLock(tmp_path).acquire()
    thief = DirectoryLock(tmp_path).acquire(steal=True)
    thief.check()
    with pytest.raises(errors.DirectoryLockedError, match="Lost the lock"):
        robbed.check()
    robbed.release()
    thief.check()
    thief.release()
    assert os.listdir(tmp_path) == []


def test_check_notices_that_the_file_was_deleted(tmp_path):
    mine = DirectoryLock(tmp_path).acquire()
    os.unlink(tmp_path / LOCK_NAME)
    with pytest.raises(errors.DirectoryLockedError, match="Lost the lock"):
        mine.check()
    mine.release()


def test_check_without_acquire_is_refused(tmp_path):
    with pytest.raises(errors.DirectoryLockedError, match=r"acquire\(\)"):
        DirectoryLock(tmp_path).check()


def test_forked_child_does_not_release_its_parents_lock(tmp_path):
    script = (
        "import os, sys\n"
        "from adaptcp_tf._src.storage.lock import DirectoryLock\n"
        "lock = DirectoryLock(sys.argv[1]).acquire()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    lock.release()\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "lock.check()\n"
    )
    assert run(script, tmp_path) == 0


# File systems with less to offer.


def test_file_system_without_hard_links(tmp_path, monkeypatch):
    def fail(*unused):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with DirectoryLock(tmp_path) as mine:
        mine.check()
        refused(tmp_path)


def test_file_system_without_kernel_locks(tmp_path, monkeypatch):
    def fail(*unused):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(kernel_lock.fcntl, "flock", fail)
    with DirectoryLock(tmp_path):
        refused(tmp_path)
    write_lock(tmp_path, holder(start_ticks=0, kernel_locked=False))
    with DirectoryLock(tmp_path) as mine:
        mine.check()


def test_lock_that_keeps_changing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_GIVE_UP_SECS", 0.05)
    monkeypatch.setattr(kernel_lock, "publish", lambda *unused: False)
    with pytest.raises(errors.DirectoryLockedError, match="keeps changing"):
        DirectoryLock(tmp_path).acquire()
    assert os.listdir(tmp_path) == []


def test_disk_full_while_locking_is_a_storage_error(tmp_path, monkeypatch):
    def fail(*unused):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(errors.StorageFullError, match="Could not lock"):
        DirectoryLock(tmp_path).acquire()
    assert os.listdir(tmp_path) == []


def test_directory_that_is_a_file_is_a_storage_error(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(errors.StorageError, match="is a file where a directory is needed"):
        DirectoryLock(tmp_path / "f").acquire()
