# SPDX-License-Identifier: Apache-2.0
"""Symptoms of other systems when rows change while a checkpoint is being saved."""

import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from tests.support import segments, tables

DIM = 16
TIMEOUT_SECS = 120


class Background:
    """Calls an action with 0, 1, 2, ... on a thread of its own until its context ends."""

    def __init__(self, action):
        self._action = action
        self._stop = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            for i in itertools.count():
                if self._stop.is_set():
                    return
                self._action(i)
        except Exception as error:
            self._error = error

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._stop.set()
        self._thread.join(TIMEOUT_SECS)
        assert not self._thread.is_alive(), "an update hangs"
        assert self._error is None, self._error


def saved_keys(directory, step):
    """The keys in the segments of a step as they are in the files, one list."""
    paths = directory.glob(f"segments/{step:016d}-*/*.acp")
    return [key for path in paths for keys, _ in segments.blocks_of(path, 1) for key in keys]


def test_rows_missing_or_repeated_after_inserts_during_a_save(tmp_path):
    """TFRA 0.8.1: 303,104 records, 298,542 of them distinct, 2,877 of 300,000 rows missing."""
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(tmp_path, variable, strategy="incremental", base_every=3)
    tables.fill(variable, range(50_000))
    inserted = 50_000

    def insert(i):
        # New rows, so that the tables grow and rehash; and old ones again.
        nonlocal inserted
        numbers = np.r_[inserted : inserted + 1000, i * 700 % 40_000 : i * 700 % 40_000 + 500]
        tables.fill(variable, numbers, seed=1)
        inserted += 1000

    at_least = {}
    with Background(insert):
        for step in range(1, 7):
            at_least[step] = inserted
            manager.save(step)
            manager.wait(TIMEOUT_SECS)
    manager.save(7)
    manager.wait(TIMEOUT_SECS)
    expected = tables.rows_of(variable)
    for step in at_least:
        keys = saved_keys(tmp_path, step)
        assert len(keys) == len(set(keys)), f"step {step} holds a row twice"
        manager.restore(step)
        found = set(tables.rows_of(variable))
        # The rows were inserted in order, so a cut holds the first so many.
        assert found == set(tables.make_keys(tf.int64, range(len(found))).numpy().tolist())
        assert len(found) >= at_least[step] and len(found) % 1000 == 0
    manager.restore(7)
    assert tables.rows_of(variable) == expected
    assert len(expected) == inserted
    manager.close()


def test_save_never_ends_while_rows_are_removed(tmp_path):
    """TFRA 0.8.1: it followed a table that kept changing."""
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    expected = tables.fill(variable, range(60_000))

    def remove(i):
        tables.remove(variable, range(i * 300 % 60_000, i * 300 % 60_000 + 300))
        tables.fill(variable, range(i * 500 % 30_000, i * 500 % 30_000 + 100), seed=2)

    manager.save(1)
    with Background(remove):
        manager.wait(TIMEOUT_SECS)
        for step in (2, 3, 4):
            manager.save(step)
            manager.wait(TIMEOUT_SECS)
    live = tables.rows_of(variable)
    manager.save(5)
    manager.wait(TIMEOUT_SECS)
    manager.restore(1)
    assert tables.rows_of(variable) == expected
    manager.restore(5)
    assert tables.rows_of(variable) == live
    manager.close()


@pytest.mark.parametrize("strategy", ["full", "incremental", "differential"])
def test_value_and_slots_of_a_row_from_different_instants(tmp_path, strategy):
    """DeepRec #1023: tables were saved one after the other while training went on."""
    variable = tables.make_variable(dim=DIM, restrict_policy=de.FrequencyRestrictPolicy)
    status = variable.restrict_policy.status
    keys = tf.range(30_000, dtype=tf.int64)

    def update(step):
        """What optimizers do: the tables of a row in no fixed order, at the same time."""
        first = threading.Thread(
            target=lambda: variable.upsert(keys, tf.fill([len(keys), DIM], float(step)))
        )
        second = threading.Thread(target=lambda: status.upsert(keys, tf.fill([len(keys), 1], step)))
        for thread in (first, second) if step % 2 else (second, first):
            thread.start()
        first.join()
        second.join()

    manager = tables.manage(tmp_path, variable, strategy=strategy)
    for step in range(1, 6):
        update(step)
        manager.save(step)
        update(100 + step)  # while the cut is being drained
    manager.wait(TIMEOUT_SECS)
    saved_by_updates = sum(report.rows_saved_on_update for report in manager.reports)
    for step in range(1, 6):
        manager.restore(step)
        assert (variable.lookup(keys).numpy() == step).all()
        assert (status.lookup(keys).numpy() == step).all()
        assert int(variable.size()) == int(status.size()) == len(keys)
    assert saved_by_updates > 0, "the updates never met the drain, so this proved nothing"
    manager.close()


def test_ids_touched_during_a_full_save_are_in_neither_file(tmp_path):
    """DeepRec, reading its source: the next incremental checkpoint missed them."""
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    before = tables.fill(variable, range(60_000))
    manager.save(1)
    for start in range(0, 70_000, 500):  # while the base is being written, and beyond it
        tables.fill(variable, range(start, start + 400), seed=1)
    tables.remove(variable, range(55_000, 56_000))
    after = tables.rows_of(variable)
    manager.wait(TIMEOUT_SECS)
    manager.save(2)
    manager.wait(TIMEOUT_SECS)
    assert [report.kind for report in manager.reports] == ["base", "delta"]
    manager.restore(2)
    assert tables.rows_of(variable) == after
    manager.restore(1)
    assert tables.rows_of(variable) == before
    manager.close()


def test_duplicate_keys_in_a_batch_overwrite(tmp_path):
    """TFRA #376: the row of a cut is saved once, with its old value, however often it is updated."""
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    keys = tf.range(20_000, dtype=tf.int64)
    variable.upsert(keys, tf.fill([20_000, DIM], 1.0))
    manager.save(1)
    thrice = tf.tile(keys, [3])
    variable.upsert(
        thrice, tf.repeat(tf.constant([[2.0], [3.0], [4.0]]), 20_000, axis=0) * tf.ones(DIM)
    )
    manager.wait(TIMEOUT_SECS)
    assert sorted(saved_keys(tmp_path, 1)) == keys.numpy().tolist()
    live = tables.rows_of(variable)
    manager.save(2)
    manager.wait(TIMEOUT_SECS)
    assert sorted(saved_keys(tmp_path, 2)) == keys.numpy().tolist()
    manager.restore(1)
    assert (variable.lookup(keys).numpy() == 1).all()
    manager.restore(2)
    assert tables.rows_of(variable) == live
    manager.close()


def test_two_savers_interleaved(tmp_path):
    """TFRA #376: two variables, saved by turns into two directories, keep out of each other's way."""
    one, other = tables.make_variable("one"), tables.make_variable("other")
    managers = {
        v: tables.manage(tmp_path / v.name, v, strategy="incremental") for v in (one, other)
    }
    expected = {}
    for step in range(1, 9):
        for variable, manager in managers.items():
            tables.fill(variable, range(step * 10, step * 30), seed=step)
            expected[variable, step] = tables.rows_of(variable)
            manager.save(step)
    for (variable, step), rows in expected.items():
        managers[variable].restore(step)
        assert tables.rows_of(variable) == rows
    for manager in managers.values():
        manager.close()
