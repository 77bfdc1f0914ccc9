# SPDX-License-Identifier: Apache-2.0
"""The examples run as a user runs them: same bits every time, with checkpoints or without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import estimators, kills

ROOT = Path(__file__).resolve().parents[2]
# script -> samples; large enough to be killed in the middle
SIZES = estimators.runnable(
    {
        "keras_movielens.py": 4_000,
        "keras_criteo.py": 1_000,
        "custom_loop_criteo.py": 1_000,
        "estimator_criteo.py": 1_000,
        "session_criteo.py": 1_000,
    }
)
KILLED_AFTER = 6


def run_example(name, *arguments, env=None):
    """Runs an example in a process of its own to its successful end; returns what it did."""
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def training(name, directory, digest, strategy="adaptive"):
    """The arguments of a training of a small size."""
    return [
        *("--samples", SIZES[name], "--epochs", 4, "--save_freq", 3),
        *("--directory", directory, "--strategy", strategy, "--digest_out", digest),
    ]


@pytest.fixture(scope="module", params=SIZES)
def example(request, tmp_path_factory):
    """The name of an example and the digest of a training without checkpoints."""
    folder = tmp_path_factory.mktemp("plain")
    run_example(
        request.param, *training(request.param, folder / "a", folder / "digest.json", "none")
    )
    assert not (folder / "a").exists()
    return request.param, json.loads((folder / "digest.json").read_text())


def test_checkpoints_do_not_change_the_training(example, tmp_path):
    name, plain = example
    run_example(name, *training(name, tmp_path / "run", tmp_path / "digest.json"))
    assert json.loads((tmp_path / "digest.json").read_text()) == plain
    assert kills.newest_step(tmp_path / "run") == plain["iterations"]


def test_killed_training_continues_from_its_checkpoint(example, tmp_path):
    name, plain = example
    directory, log = tmp_path / "run", tmp_path / "log"
    arguments = training(name, directory, tmp_path / "digest.json")
    command = [ROOT / "examples" / name, *arguments]
    with kills.Trainer(command, directory, log) as trainer:
        trainer.kill_when(lambda: kills.newest_step(directory) >= KILLED_AFTER)
    killed_at = kills.newest_step(directory)
    run_example(name, *arguments)
    assert json.loads((tmp_path / "digest.json").read_text()) == plain
    # A process begins a file of history with its first checkpoint.
    newest_history = max((directory / "history").iterdir())
    assert killed_at < int(newest_history.stem)


def test_criteo_example_runs_without_the_sample(tmp_path):
    done = run_example(
        "keras_criteo.py",
        *("--directory", tmp_path, "--samples", 256, "--epochs", 1),
        env={"ADAPTCP_DATA": str(tmp_path / "nowhere")},
    )
    assert "generated in the same format" in done.stderr


def test_demo_proves_the_resume_and_compares_strategies(tmp_path):
    output = tmp_path / "out"
    done = run_example(
        "demo.py",
        *("--output", output, "--samples", 20_000, "--epochs", 3, "--rows", 5_000),
        *("--batch", 128, "--interval", 4, "--steps", 8, "--rounds", 1),
    )
    assert "killed with SIGKILL" in done.stdout
    assert "Identical, bit for bit" in done.stdout
    results = json.loads((output / "strategies.json").read_text())
    assert [row["strategy"] for row in results] == [
        *("none", "full", "incremental", "differential", "check_n_run", "adaptive")
    ]
    assert (output / "strategies.png").read_bytes().startswith(b"\x89PNG")
    assert not list(output.glob("checkpoints-*"))
