# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of one supported TensorFlow are restored, and continued, under every other.

Needs the environment of each, so that `make test` leaves it out: `make test-pairs` runs it.
"""

import itertools
import json

import pytest

from tests.support import processes

TENSORFLOWS = sorted(
    path.stem.removeprefix("requirements-tf")
    for path in processes.ROOT.glob("requirements-tf*.txt")
)
DIRECTIONS = list(itertools.permutations(TENSORFLOWS, 2))


def python_of(tensorflow):
    """The interpreter of a TensorFlow's environment, as the Makefile names it."""
    folder = ".venv" if tensorflow == TENSORFLOWS[0] else f".venv-tf{tensorflow}"
    python = processes.ROOT / folder / "bin" / "python"
    assert python.exists(), f"There is no {python}. Run `make test-pairs`."
    return python


def run(tensorflow, program, **arguments):
    """Runs a program under a TensorFlow; returns what it says of the state it ended with."""
    command = ["-m", "tests.pairs.programs", program, json.dumps(arguments)]
    done = processes.run_python(*command, python=python_of(tensorflow))
    state = json.loads(done.stdout.splitlines()[-1])
    assert state.pop("tensorflow").startswith(tensorflow)
    return state


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
def test_chain_is_restored_and_continued_by_the_other(tmp_path, first, second):
    model = {"directory": str(tmp_path), "kind": "functional", "optimizer": "adam"}
    saved = run(first, "train", strategy="incremental", **model)
    assert run(second, "restore", **model) == saved
    # One chain now, with segments that each of them wrote.
    continued = run(second, "train", strategy="incremental", **model)
    assert continued != saved
    assert run(first, "restore", **model) == continued


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
def test_hot_and_cold_rows_are_restored_by_the_other(tmp_path, first, second):
    model = {"directory": str(tmp_path), "kind": "functional", "optimizer": "rmsprop"}
    saved = run(first, "train", strategy="adaptive", hot_threshold=0.5, **model)
    assert run(second, "restore", **model) == saved


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
def test_every_type_of_table_is_restored_by_the_other(tmp_path, first, second):
    saved = run(first, "fill", directory=str(tmp_path))
    assert run(second, "load", directory=str(tmp_path)) == saved


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
def test_session_is_restored_by_the_other(tmp_path, first, second):
    saved = run(first, "train_session", directory=str(tmp_path), begin=0, end=12)
    restored = run(second, "train_session", directory=str(tmp_path), begin=12, end=12)
    assert restored == saved
