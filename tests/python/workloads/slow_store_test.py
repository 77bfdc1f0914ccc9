# SPDX-License-Identifier: Apache-2.0
"""The store that stands for remote storage: at most as fast as asked, failing as often as asked."""

import concurrent.futures
import time

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import tables
from tests.support.stores import slow_store

MB = 1_000_000


@pytest.fixture
def store(tmp_path):
    slow_store.configure()
    yield slow_store.url(tmp_path)
    slow_store.configure()


def write(path, data):
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def read(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def test_files_are_those_of_the_local_disk(store, tmp_path):
    tf.io.gfile.makedirs(f"{store}/folder")
    write(f"{store}/folder/a", b"content")
    assert (tmp_path / "folder" / "a").read_bytes() == b"content"
    assert read(f"{store}/folder/a") == b"content"
    assert tf.io.gfile.listdir(f"{store}/folder") == ["a"]
    assert tf.io.gfile.glob(f"{store}/folder/*") == [f"{store}/folder/a"]
    assert tf.io.gfile.stat(f"{store}/folder/a").length == 7
    tf.io.gfile.rename(f"{store}/folder/a", f"{store}/folder/b")
    tf.io.gfile.remove(f"{store}/folder/b")
    assert not tf.io.gfile.exists(f"{store}/folder/b")
    tf.io.gfile.rmtree(f"{store}/folder")
    assert not (tmp_path / "folder").exists()


def test_file_appears_whole_when_it_is_closed(store):
    write(f"{store}/a", b"before")
    file = tf.io.gfile.GFile(f"{store}/a", "wb")
    file.write(b"after, " * 100_000)
    file.flush()
    assert read(f"{store}/a") == b"before"
    assert tf.io.gfile.listdir(store) == ["a"]
    file.close()
    assert read(f"{store}/a").startswith(b"after, ")


def test_objects_cannot_be_appended_to(store):
    write(f"{store}/a", b"x")
    with pytest.raises(tf.errors.UnimplementedError), tf.io.gfile.GFile(f"{store}/a", "ab") as file:
        file.write(b"y")


def test_a_stream_is_no_faster_than_asked(store):
    slow_store.configure(stream_bytes_per_sec=4 * MB)
    assert seconds(lambda: write(f"{store}/a", bytes(MB))) >= 0.25
    assert seconds(lambda: read(f"{store}/a")) >= 0.25


def test_streams_share_the_line(store):
    slow_store.configure(stream_bytes_per_sec=20 * MB, total_bytes_per_sec=8 * MB)

    def write_all():
        with concurrent.futures.ThreadPoolExecutor(4) as executor:
            list(executor.map(lambda i: write(f"{store}/{i}", bytes(MB)), range(4)))

    assert seconds(write_all) >= 0.5
    assert slow_store.counters().bytes_written == 4 * MB


def test_every_request_takes_its_latency(store):
    slow_store.configure(latency_secs=0.05)
    # Open, close and at least one more.
    assert seconds(lambda: write(f"{store}/a", b"x")) >= 0.1
    assert slow_store.counters().requests >= 2


def outcomes(store, **options):
    """Which of a hundred requests fail."""
    slow_store.configure(**options)
    failed = []
    for _ in range(100):
        try:
            tf.io.gfile.stat(store)
            failed.append(False)
        except tf.errors.UnavailableError as error:
            assert "injected failure" in error.message
            failed.append(True)
    return failed


def test_failures_are_as_many_as_asked_and_repeatable(store):
    first = outcomes(store, failure_rate=0.2, seed=1)
    assert 5 <= sum(first) <= 40
    assert slow_store.counters().failures == sum(first)
    assert outcomes(store, failure_rate=0.2, seed=1) == first
    assert outcomes(store, failure_rate=0.2, seed=2) != first
    assert not any(outcomes(store))
    assert all(outcomes(store, failure_rate=1.0))


def test_checkpoints_live_there(store):
    slow_store.configure(stream_bytes_per_sec=50 * MB, latency_secs=0.002)
    variable, fresh = (tables.make_variable(dim=16) for _ in range(2))
    manager = tables.manage(f"{store}/run", variable, max_to_keep=2)
    for step in range(1, 5):
        tables.fill(variable, range(100 * step, 100 * step + 300), seed=step)
        manager.save(step)
    manager.close()
    assert slow_store.counters().bytes_written > 300 * 64
    other = tables.manage(f"{store}/run", fresh)
    assert other.all_steps() == [3, 4]
    other.restore()
    other.close()
    assert tables.rows_of(fresh) == tables.rows_of(variable)


def test_store_that_fails_loses_no_row(store):
    variable, fresh = (tables.make_variable() for _ in range(2))
    manager = tables.manage(f"{store}/run", variable)
    tables.fill(variable, range(50))
    manager.save(1)
    manager.wait()
    slow_store.configure(failure_rate=0.5, seed=3)
    failed = 0
    for step in range(2, 12):
        tables.fill(variable, range(step, step + 20), seed=step)
        try:
            manager.save(step)
            manager.wait()
        except (errors.CheckpointFailedError, errors.StorageError) as error:
            # The last is what TensorFlow says of a directory it could not ask about.
            told = ("injected failure", "could not be listed", "is not a directory")
            assert any(text in str(error) for text in told)
            failed += 1
    assert failed > 0
    slow_store.configure()
    manager.take_failure()
    manager.save(20)
    manager.close()
    other = tables.manage(f"{store}/run", fresh)
    other.restore()
    assert tables.rows_of(fresh) == tables.rows_of(variable)
    slow_store.configure(failure_rate=1.0)
    with pytest.raises(errors.StorageError, match="injected failure"):
        other.restore()
    slow_store.configure()
    other.close()
    assert isinstance(acp.errors.StorageError("x"), OSError)
