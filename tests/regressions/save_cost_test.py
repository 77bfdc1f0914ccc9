# SPDX-License-Identifier: Apache-2.0
"""Symptoms of other systems in what a save and a restore cost: memory and time that explode."""

import statistics
import time

import tensorflow as tf

from tests.support import kills, processes, tables

# Watches the resident memory from a thread; numbers in MiB.
MEASURE = """
import resource, sys, threading, time
import numpy as np, tensorflow as tf
from tests.support import tables

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

class Peak:
    def __enter__(self):
        self.start = self.peak = resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self
    def _watch(self):
        while not self._stop.wait(0.002):
            self.peak = max(self.peak, resident())
    def __exit__(self, *unused):
        self._stop.set()
        self._thread.join()
        self.end = resident()

rows, dim = 1_000_000, int(sys.argv[2])
# Sized beforehand: a table that grows needs room for two, whoever fills it.
variable = tables.make_variable(dim=dim, init_size=2 * rows)
manager = tables.manage(sys.argv[1], variable)
"""

SAVE = (
    MEASURE
    + """
def update():
    for start in range(0, rows, 20_000):
        keys = tf.range(start, start + 20_000, dtype=tf.int64)
        variable.upsert(keys, tf.random.normal([20_000, dim]))

update()
with Peak() as save:
    manager.save(1)
    manager.wait()
update()
# While all rows are updated again, and so saved, before the drain comes to them.
with Peak() as updates:
    manager.save(2)
    update()
    manager.wait()
assert manager.reports[1].rows_saved_on_update > 0
print("grew", save.peak - save.start, updates.peak - updates.start)
"""
)

RESTORE = (
    MEASURE
    + """
with Peak() as restore:
    report = manager.restore()
assert report.rows == rows
print("grew", restore.peak - restore.start)
"""
)

# The longest rows for which TFRA makes room before they come.
DIM = 100
TABLE_MIB = 1_000_000 * DIM * 4 / 2**20  # 381
# What the blocks on their way to the disk may take in a process, and some for everything else.
BOUND_MIB = 192 + 64


def grown(script, *arguments):
    words = processes.run(script, *arguments).stdout.split()
    return [float(word) for word in words[words.index("grew") + 1 :]]


def test_saving_copies_the_whole_table(tmp_path):
    """TFRA #243, #257: out of memory. Here saving and restoring take room for some blocks only."""
    assert BOUND_MIB < TABLE_MIB * 0.7
    in_save, in_updates = grown(SAVE, tmp_path, DIM)
    assert in_save < BOUND_MIB
    assert in_updates < BOUND_MIB
    (in_restore,) = grown(RESTORE, tmp_path, DIM)
    assert in_restore < BOUND_MIB


def seconds_to_save(directory, rows, dirty):
    """Seconds and report of a save of `dirty` rows out of `rows`; the median of a few."""
    variable = tables.make_variable(dim=16)
    manager = tables.manage(directory, variable, strategy="incremental")
    keys = tf.range(rows, dtype=tf.int64)
    variable.upsert(keys, tf.zeros([rows, 16]))
    manager.save(1)
    manager.wait()
    seconds = []
    for step in range(2, 7):
        variable.upsert(keys[:dirty], tf.fill([dirty, 16], float(step)))
        start = time.perf_counter()
        manager.save(step)
        manager.wait()
        seconds.append(time.perf_counter() - start)
    manager.close()
    assert {report.rows_cold for report in manager.reports[1:]} == {dirty}
    return statistics.median(seconds), manager.reports[-1]


def test_save_time_is_quadratic_in_the_rows_saved(tmp_path):
    """TFRA 0.8.1: 0.3, 1.0, 3.4 s for 0.4, 0.8, 1.6 million rows with small buffers."""
    few, _ = seconds_to_save(tmp_path / "few", 400_000, 50_000)
    many, _ = seconds_to_save(tmp_path / "many", 400_000, 400_000)
    # Eight times the rows; a quadratic save would need sixty-four times as long.
    assert many < 8 * 3 * few


def test_save_costs_as_much_as_the_table_is_large(tmp_path):
    """The same rows are saved as the same bytes, and in about the same time."""
    small, of_small = seconds_to_save(tmp_path / "small", 10_000, 5_000)
    large, of_large = seconds_to_save(tmp_path / "large", 800_000, 5_000)
    assert of_large.rows_cold == of_small.rows_cold
    assert abs(of_large.bytes - of_small.bytes) < of_small.bytes / 50
    # Eighty times the table.
    assert large < 8 * small


REPLACE = """
import sys
import tensorflow as tf
from tests.support import tables
variable = tables.make_variable(dim=32)
manager = tables.manage(sys.argv[1], variable, strategy="full", max_to_keep=1)
keys = tf.range(100_000, dtype=tf.int64)
for step in range(1, 1000):
    variable.upsert(keys, tf.fill([100_000, 32], float(step)))
    manager.save(step)
"""


def test_kill_in_a_second_save_loads_half_of_the_rows(tmp_path):
    """TFRA 0.8.1: a save to the same path was killed; the load "succeeded" with a mix of rows."""
    directory = tmp_path / "run"
    with kills.Trainer(["-c", REPLACE, directory], directory, tmp_path / "log") as trainer:
        trainer.kill_when(
            lambda: kills.newest_step(directory) >= 1 and kills.unfinished_attempts(directory),
            delay_secs=0.01,
        )
    variable = tables.make_variable(dim=32)
    manager = tables.manage(directory, variable)
    step = manager.restore().step
    keys, rows = variable.export()
    assert set(keys.numpy()) == set(range(100_000))
    assert len(keys) == 100_000
    assert (rows.numpy() == step).all()
    manager.close()
