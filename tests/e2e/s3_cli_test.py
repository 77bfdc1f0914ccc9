# SPDX-License-Identifier: Apache-2.0
"""The command line on checkpoints in S3: look, verify, compact, tidy up; the rest still restores."""

import json
import subprocess
import sys

import pytest

from tests.support import kills, processes
from tests.support.s3_server import s3_server

DIRECTORY = "s3://checkpoints/run"


class Shell:
    """Runs commands on a server's bucket, each in a process of its own."""

    def __init__(self, server, folder):
        self.environment = {**processes.ENVIRONMENT, **server.environment}
        self._server = server
        self._folder = folder

    def script(self, name, **arguments):
        """What one of `s3_scripts` writes."""
        out = self._folder / "out.json"
        arguments = {"directory": DIRECTORY, "out": str(out), **arguments}
        command = ["-m", "tests.support.s3_scripts", name, json.dumps(arguments)]
        environment = self._server.environment
        with kills.Trainer(command, DIRECTORY, self._folder / "log", environment) as trainer:
            trainer.finish()
        return json.loads(out.read_text())


@pytest.fixture
def shell(tmp_path):
    with s3_server(tmp_path / "s3") as server:
        yield Shell(server, tmp_path)


def test_run_in_s3_is_looked_at_compacted_and_tidied_up(shell, tmp_path):
    trained = shell.script("train", batches=9, epochs=1, save_freq=3, strategy="incremental")
    commands = [
        ["ls"],
        ["verify"],
        ["diff", "3", "9"],
        ["plot", str(tmp_path / "run.png")],
        ["compact"],
        ["gc", "--keep", "1"],
        ["ls"],
        ["verify"],
    ]
    done = shell.script("command_line", commands=commands)
    assert [one["status"] for one in done] == [0] * len(commands)
    listed, verified, compared, drawn, compacted, collected, listed_after, verified_after = done
    assert [one["step"] for one in listed["checkpoints"]] == [3, 6, 9]
    assert (verified["steps"], verified["problems"]) == ([3, 6, 9], [])
    assert sum(group["added"] + group["changed"] for group in compared["groups"]) > 0
    assert drawn["checkpoints"] == 3
    assert compacted["compacted"] and compacted["bytes_after"] < compacted["bytes_before"]
    assert collected["deleted_steps"] == [3, 6]
    assert [one["kind"] for one in listed_after["checkpoints"]] == ["base"]
    assert (verified_after["steps"], verified_after["problems"]) == ([9], [])
    assert shell.script("restore") == {k: v for k, v in trained.items() if "metric" not in k}


def test_process_ends_with_its_status(shell):
    """Whatever tensorflow-io does in the end of the interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "adaptcp_tf.cli", "ls", "s3://checkpoints/nowhere"],
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "There is no directory 's3://checkpoints/nowhere'" in done.stderr
