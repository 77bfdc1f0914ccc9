# SPDX-License-Identifier: Apache-2.0
"""Killed inside a save: the previous checkpoint loads, whole and unmixed, and no garbage stays."""

import os

import pytest

from tests.support import kills, tables

LONG = os.environ.get("ADAPTCP_TEST_LENGTH") == "long"
ROWS = 60_000
REMOVED = 1_000

# Every row holds its step, so that rows of two steps would show. Each step removes some rows as well,
# and half of the saves are bases.
TRAIN = f"""
import sys
import tensorflow as tf
from tests.support import tables
variable = tables.make_variable(dim=32, shards=2)
manager = tables.manage(sys.argv[1], variable, base_every=2, max_to_keep=2, hot_threshold=0.3)
step = manager.restore().step if manager.latest_step() else 0
keys = tf.range({ROWS}, dtype=tf.int64)
while True:
    step += 1
    variable.upsert(keys, tf.fill([{ROWS}, 32], float(step)))
    variable.remove(keys[:{REMOVED}] + step * {REMOVED})
    manager.save(step)
"""


def assert_whole(directory):
    """Every checkpoint restores to all rows of its step and no others."""
    variable = tables.make_variable(dim=32, shards=2)
    manager = tables.manage(directory, variable)
    steps = manager.all_steps()
    for step in steps:
        report = manager.restore(step)
        keys, rows = variable.export()
        removed = range(step * REMOVED, (step + 1) * REMOVED)
        assert sorted(keys.numpy()) == [k for k in range(ROWS) if k not in removed]
        assert (rows.numpy() == step).all(), f"step {step} holds rows of other steps"
        assert report.rows == len(keys)
    manager.close()
    return steps


@pytest.mark.parametrize("delay_secs", [i * 0.004 for i in range(50 if LONG else 4)])
def test_kill_in_a_save_leaves_the_previous_checkpoint(tmp_path, delay_secs):
    directory = tmp_path / "run"
    with kills.Trainer(["-c", TRAIN, directory], directory, tmp_path / "log") as trainer:
        trainer.kill_when(
            lambda: kills.newest_step(directory) >= 2 and kills.unfinished_attempts(directory),
            delay_secs,
        )
    steps = assert_whole(directory)
    assert len(steps) >= 2


def test_garbage_of_kills_is_collected_by_the_next_trainer(tmp_path):
    directory = tmp_path / "run"
    command = ["-c", TRAIN, directory]
    for _ in range(10):  # now and then a save is done before the kill arrives
        with kills.Trainer(command, directory, tmp_path / "log") as trainer:
            trainer.kill_when(
                lambda: kills.newest_step(directory) >= 1 and kills.unfinished_attempts(directory)
            )
        garbage = set(kills.unfinished_attempts(directory))
        if garbage:
            break
    assert garbage
    newest = kills.newest_step(directory)
    with kills.Trainer(command, directory, tmp_path / "log") as trainer:
        trainer.kill_when(lambda: kills.newest_step(directory) >= newest + 2)
    assert not garbage & set(os.listdir(directory / "segments"))
    assert_whole(directory)
