# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in S3, through TensorFlow's S3 file system: train, kill, resume, retention, outages."""

import json
import os
import re

import pytest

from adaptcp_tf._src.manifest.codec import decode_manifest
from tests.support import fitting, kills, models, processes
from tests.support.s3_server import s3_server

BATCHES, EPOCHS, SAVE_FREQ = 30, 2, 5
LAST_STEP = BATCHES * EPOCHS
TRAINING = {"batches": BATCHES, "epochs": EPOCHS, "save_freq": SAVE_FREQ, "max_to_keep": 2}
# Step whose save is hit -> the request in which the trainer is killed.
KILLS_IN_A_SAVE = {
    25: r"PUT .*/manifest-0*25\.json",
    40: r"DELETE .*/manifest-0*30\.json",
}
TRAIN_WITHOUT_PLUGIN = """
import adaptcp_tf as acp

try:
    acp.keras.AdaptiveCheckpoint("s3://checkpoints/run")
except acp.errors.UnsupportedFileSystemError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("server") / "s3") as server:
        yield server


@pytest.fixture(scope="module")
def uninterrupted():
    """Digests of a training without checkpoints."""
    return fitting.plain(lambda: models.dataset(BATCHES), epochs=EPOCHS).parts


class Machine:
    """A machine with an empty disk that runs one of `s3_scripts`.

    Args:
        server: the store.
        disk: folder that stands for the disk; made here, if it is not that of an earlier process.
        script: name of the script.
        directory: of the checkpoints, a URI.
        **arguments: more arguments of the script.
    """

    def __init__(self, server, disk, script, directory, **arguments):
        disk.mkdir(exist_ok=True)
        self._out = disk / "out.json"
        self._log = disk / "log"
        arguments = {"directory": directory, "out": str(self._out), **arguments}
        command = ["-m", "tests.support.s3_scripts", script, json.dumps(arguments)]
        environment = {**server.environment, "HOME": str(disk), "TMPDIR": str(disk)}
        self.trainer = kills.Trainer(command, directory, self._log, environment)

    def result(self):
        """Waits for its end; what it wrote."""
        with self.trainer:
            self.trainer.finish()
        return json.loads(self._out.read_text())

    def complaint(self):
        """Waits for its end in an error; the line that says which."""
        with self.trainer:
            assert self.trainer.wait() == 1, self._log.read_text()[-3000:]
        assert not self._out.exists()
        said = re.findall(r"^adaptcp_tf\.errors\..*", self._log.read_text(), re.MULTILINE)
        assert said, self._log.read_text()[-3000:]
        return said[-1]


def manifest_of(server, run, step):
    name = f"manifest-{step:016d}.json"
    return decode_manifest(server.read(run, name), name)


def steps_in(server, run):
    found = (re.fullmatch(r"manifest-(\d{16})\.json", name) for name in server.objects(run))
    return [int(match.group(1)) for match in found if match]


def committed(server, run, step):
    """Whether the store has answered the request that makes a step exist."""
    return f"PUT /checkpoints/{run}/manifest-{step:016d}.json" in server.requests()


def test_killed_training_resumes_on_an_empty_disk_with_the_same_bits(
    server, uninterrupted, tmp_path
):
    """Killed after a save, before the request that commits one, and before one of retention."""

    def machine(name):
        return Machine(server, tmp_path / name, "train", server.url("killed"), **TRAINING)

    with machine("first").trainer as trainer:
        trainer.kill_when(lambda: committed(server, "killed", 10))
    for step, request in KILLS_IN_A_SAVE.items():
        server.hold(request)
        with machine(f"until {step}").trainer as trainer:
            trainer.kill_when(server.holds)
        newest = step if request.startswith("DELETE") else step - SAVE_FREQ
        assert max(steps_in(server, "killed")) == newest
    abandoned = "killed/segments/0000000000000007-0badcafe/"
    server.client.put_object(Bucket="checkpoints", Key=abandoned, Body=b"")
    assert machine("last").result() == uninterrupted
    assert_only_kept(server, "killed", [LAST_STEP - SAVE_FREQ, LAST_STEP])


def assert_only_kept(server, run, steps):
    """The bucket holds the manifests of these steps, every file that they name, and the history."""
    assert steps_in(server, run) == steps
    named = {}
    for step in steps:
        named.update(manifest_of(server, run, step).files())
    found = {k: v for k, v in server.objects(run).items() if not k.startswith("history/")}
    assert len(found) < len(server.objects(run))
    # At times the file system puts an empty object for a directory.
    directories = {name for name in found if name.endswith("/")}
    assert directories <= {name.rpartition("/")[0] + "/" for name in named}
    others = found.keys() - directories
    assert {name: found[name] for name in others if not name.startswith("manifest-")} == named


def test_training_with_a_buffer_resumes_on_an_empty_disk_and_on_its_own(
    server, uninterrupted, tmp_path
):
    def machine(name):
        buffer = str(tmp_path / name / "buffer")
        return Machine(
            server,
            tmp_path / name,
            "train",
            server.url("buffered"),
            local_dir=buffer,
            **{**TRAINING, "max_to_keep": None},
        )

    with machine("first").trainer as trainer:
        trainer.kill_when(lambda: steps_in(server, "buffered"))
    # On an empty disk: only the bucket knows how far training was.
    server.hold("PUT .*/buffered/manifest-")
    buffer = tmp_path / "second" / "buffer"
    before = max(steps_in(server, "buffered"))
    with machine("second").trainer as trainer:
        trainer.kill_when(lambda: server.holds() and kills.newest_step(buffer) > before + SAVE_FREQ)
    assert max(steps_in(server, "buffered")) == before
    # On the disk that knows more than the bucket.
    newest = kills.newest_step(buffer)
    assert machine("second").result() == uninterrupted
    assert kills.newest_step(buffer) == max(steps_in(server, "buffered")) == LAST_STEP
    # What was trained before the second kill was not trained again.
    steps = [int(name[:16]) for name in os.listdir(buffer / "segments")]
    assert len(steps) == len(set(steps)) and newest in steps


def test_loop_of_ones_own_saves_and_a_fresh_process_restores(server, tmp_path):
    saved, restored = (
        Machine(server, tmp_path / script, script, server.url("loop"), **arguments).result()
        for script, arguments in [("save_in_a_loop", {"batches": 10}), ("restore", {})]
    )
    assert steps_in(server, "loop") == [5, 10]
    assert sum(name.startswith("table 0.") for name in saved) == 3

    def without_metrics(parts):
        return {name: part for name, part in parts.items() if not name.startswith("metric")}

    assert without_metrics(restored) == without_metrics(saved)


def test_missing_bucket_is_named_before_anything_is_trained(server, tmp_path):
    said = Machine(server, tmp_path / "disk", "train", "s3://mistyped/run", **TRAINING).complaint()
    assert "StorageNotFoundError" in said
    assert "'s3://mistyped/run/adaptcp.lock'" in said
    assert "The specified bucket does not exist" in said
    assert "Check the path" in said


def test_store_that_is_down_is_not_taken_for_an_empty_one(server, uninterrupted, tmp_path):
    """The file system's own lookups say "not found" then; a training would begin from scratch."""
    first = Machine(server, tmp_path / "1", "train", server.url("outage"), **TRAINING)
    with first.trainer as trainer:
        trainer.kill_when(lambda: committed(server, "outage", 10))
    with server.unavailable():
        said = Machine(
            server, tmp_path / "2", "train", server.url("outage"), **TRAINING
        ).complaint()
    assert "StorageError" in said
    assert "Could not list 's3://checkpoints/outage'" in said
    assert "Check that the storage is reachable" in said
    again = Machine(server, tmp_path / "3", "train", server.url("outage"), **TRAINING)
    assert again.result() == uninterrupted


def test_answers_about_objects_are_those_of_the_store(server, tmp_path):
    server.client.put_object(Bucket="checkpoints", Key="asked/there/file", Body=b"abc")
    server.client.put_object(Bucket="checkpoints", Key="asked/empty/", Body=b"")
    paths = ["there/file", "nothing", "there", "empty"]
    answers = Machine(server, tmp_path / "disk", "ask", server.url("asked"), paths=paths).result()
    missing = "StorageNotFoundError"
    assert answers == {
        "exists": ["True", "False", "True", "True"],
        "list_dir": ["StorageError", missing, "['file']", "[]"],
        "size": ["3", missing, "0", "0"],
        "read_bytes": ["b'abc'", missing, "b''", "b''"],
    }


def test_store_that_is_down_answers_no_question(server, tmp_path):
    with server.unavailable():
        answers = Machine(
            server, tmp_path / "disk", "ask", server.url("asked"), paths=["there/file", "nothing"]
        ).result()
    assert {outcome for outcomes in answers.values() for outcome in outcomes} == {"StorageError"}


def test_server_that_is_gone_is_an_error(tmp_path):
    with s3_server(tmp_path / "s3") as server:
        pass
    said = Machine(server, tmp_path / "disk", "train", server.url("run"), **TRAINING).complaint()
    assert "Could not list 's3://checkpoints/run'" in said
    assert "Couldn't connect to server" in said
    assert "Check that the storage is reachable from this host" in said


def test_training_without_the_plugin_says_what_to_install():
    """In a process of its own: tensorflow-io, once imported, stays."""
    said = processes.run(TRAIN_WITHOUT_PLUGIN)
    assert re.search("tensorflow-io==.*import", said.stdout)
