# SPDX-License-Identifier: Apache-2.0
"""The lock on stores that cannot create a file atomically and have no kernel behind them."""

import uuid

import pytest

from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.lock import LOCK_NAME, DirectoryLock
from tests.python.storage.holders import holder, other_host, refused


@pytest.fixture
def remote():
    directory = f"ram://{uuid.uuid4().hex}/run"
    files.make_dirs(directory)
    return directory


def test_remote_lock_is_exclusive_and_released(remote):
    with DirectoryLock(remote) as mine:
        mine.check()
        refused(remote)
    assert files.list_dir(remote) == []


def test_remote_lock_of_a_dead_process_is_taken_over(remote):
    path = files.join(remote, LOCK_NAME)
    files.write_durably(path, holder(start_ticks=0, kernel_locked=False).encode())
    with DirectoryLock(remote) as mine:
        mine.check()


def test_remote_lock_of_another_host_is_refused_or_stolen(remote):
    path = files.join(remote, LOCK_NAME)
    for content in (other_host().encode(), b"?"):
        files.write_durably(path, content)
        refused(remote)
        with DirectoryLock(remote).acquire(steal=True) as mine:
            mine.check()


def test_remote_lock_that_another_writer_overwrote_is_refused(remote, monkeypatch):
    write = files.write_durably
    monkeypatch.setattr(
        files, "write_durably", lambda path, data: write(path, other_host().encode())
    )
    assert refused(remote).host == "elsewhere"
