# SPDX-License-Identifier: Apache-2.0
"""The upload op: where it runs, what it refuses, what it copies. Its engine is tested in C++."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from adaptcp_tf._src.ops.upload import FileCopy, upload
from tests.support import processes
from tests.support.stores import slow_store

PARAMETER_SERVER = """
import sys
import tensorflow as tf
from adaptcp_tf._src.ops.upload import upload
cluster = tf.train.ClusterSpec({"ps": [sys.argv[1]], "chief": [sys.argv[2]]})
server = tf.distribute.Server(cluster, job_name="ps", task_index=0, protocol="grpc")
print("ready", flush=True)
sys.stdin.read()
"""

CHIEF = """
import sys
import tensorflow as tf
from adaptcp_tf._src.ops.upload import FileCopy, upload
cluster = tf.train.ClusterSpec({"ps": [sys.argv[1]], "chief": [sys.argv[2]]})
tf.config.experimental_connect_to_cluster(cluster, job_name="chief", task_index=0)
copies = [FileCopy("only-there", sys.argv[3], 5)]
try:
    upload(copies)
except tf.errors.DataLossError as error:
    print("not here:", error.message)
print(upload(copies, device="/job:ps/replica:0/task:0/device:CPU:0"))
"""


@pytest.fixture
def store(tmp_path):
    slow_store.configure()
    (tmp_path / "remote").mkdir()
    yield slow_store.url(tmp_path / "remote")
    slow_store.configure()


def make_files(folder, sizes):
    for i, size in enumerate(sizes):
        (folder / f"file-{i}").write_bytes(os.urandom(size))
    return [FileCopy(str(folder / f"file-{i}"), "", size) for i, size in enumerate(sizes)]


def to(store, copies):
    return [FileCopy(c.source, f"{store}/{os.path.basename(c.source)}", c.bytes) for c in copies]


@pytest.mark.parametrize("atomic_writes", [False, True])
def test_files_arrive_whole(tmp_path, store, atomic_writes):
    sizes = [0, 1, 100_000, 3 << 20]
    copies = to(store, make_files(tmp_path, sizes))
    result = upload(copies, atomic_writes=atomic_writes)
    assert result == {"files": 4, "bytes": sum(sizes), "retries": 0}
    for i in range(len(sizes)):
        name = f"file-{i}"
        assert (tmp_path / "remote" / name).read_bytes() == (tmp_path / name).read_bytes()
    assert upload(copies, resume=True)["bytes"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_one_request_in_twenty_may_fail(tmp_path, store, seed):
    copies = to(store, make_files(tmp_path, [1000] * 20))
    slow_store.configure(failure_rate=0.05, seed=seed)
    assert upload(copies)["retries"] > 0
    assert len(list((tmp_path / "remote").iterdir())) == 20


def test_files_are_uploaded_at_the_same_time(tmp_path, store):
    copies = to(store, make_files(tmp_path, [100_000] * 8))
    slow_store.configure(stream_bytes_per_sec=200_000)
    start = tf.timestamp()
    upload(copies, num_threads=8)
    # One after the other takes four seconds in any case.
    assert float(tf.timestamp() - start) < 3.5


def test_source_of_another_size_is_refused(tmp_path, store):
    (copy,) = to(store, make_files(tmp_path, [10]))
    with pytest.raises(tf.errors.DataLossError, match="expected a file of 11 bytes"):
        upload([FileCopy(copy.source, copy.target, 11)])
    assert not list((tmp_path / "remote").iterdir())


def test_shapes_are_checked():
    from adaptcp_tf._src.ops.library import ops

    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="elements each"):
        ops.adaptcp_upload(["a"], ["b", "c"], tf.constant([1], tf.int64))


def test_files_of_a_parameter_server_are_uploaded_from_there(tmp_path):
    folder = tmp_path / "parameter-server"
    folder.mkdir()
    (folder / "only-there").write_bytes(b"hello")
    addresses = [f"127.0.0.1:{processes.free_port()}" for _ in range(2)]
    with subprocess.Popen(
        [sys.executable, "-c", PARAMETER_SERVER, *addresses],
        env=processes.ENVIRONMENT,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout.readline() == "ready\n"
            said = processes.run(CHIEF, *addresses, tmp_path / "remote").stdout
        finally:
            server.kill()
    assert "not here" in said and "cannot read the file to upload: only-there" in said
    assert "'bytes': 5" in said
    assert (tmp_path / "remote").read_bytes() == b"hello"
