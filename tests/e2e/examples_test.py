# SPDX-License-Identifier: Apache-2.0
"""The examples run as a user runs them: same bits every time, with checkpoints or without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import estimators

ROOT = Path(__file__).resolve().parents[2]
SIZES = estimators.runnable(
    {
        "keras_movielens.py": 4_000,
        "keras_criteo.py": 1_000,
        "estimator_criteo.py": 1_000,
        "session_criteo.py": 1_000,
    }
)


def run_example(name, *arguments, env=None, check=True):
    """Runs an example in a process of its own; returns what it did."""
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False
    )
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


def train(name, directory, digest, *arguments, strategy="adaptive", epochs=2):
    """Trains an example at a small size and returns the digest it wrote."""
    arguments = ["--samples", SIZES[name], "--epochs", epochs, "--save_freq", 3, *arguments]
    arguments += ["--directory", directory, "--strategy", strategy, "--digest_out", digest]
    run_example(name, *arguments)
    return json.loads(digest.read_text())


@pytest.mark.parametrize("name", SIZES)
def test_checkpoints_do_not_change_the_training(name, tmp_path):
    plain = train(name, tmp_path / "a", tmp_path / "plain.json", strategy="none")
    saved = train(name, tmp_path / "b", tmp_path / "saved.json")
    assert plain == saved
    assert not (tmp_path / "a").exists()
    assert list((tmp_path / "b").glob("manifest-*.json"))


@pytest.mark.parametrize("name", SIZES)
def test_training_continues_from_its_checkpoint(name, tmp_path):
    whole = train(name, tmp_path / "a", tmp_path / "whole.json", epochs=2)
    train(name, tmp_path / "b", tmp_path / "half.json", epochs=1)
    resumed = train(name, tmp_path / "b", tmp_path / "resumed.json", epochs=2)
    assert resumed == whole


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
