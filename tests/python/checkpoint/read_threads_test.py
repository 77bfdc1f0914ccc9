# SPDX-License-Identifier: Apache-2.0
"""A restore from storage of which one stream is slow has as many streams as it is told to."""

import time

import pytest

import adaptcp_tf as acp
from tests.support import models, tables
from tests.support.stores import slow_store

MIB = 1 << 20
ROWS = 100_000
DIM = 32  # 12 blocks


@pytest.fixture(autouse=True)
def at_full_speed():
    slow_store.configure()
    yield
    slow_store.configure()


def restored(directory, read_threads):
    """Rows of a variable after a restore from a slow store, and the seconds that took."""
    variable = tables.make_variable(dim=DIM)
    slow_store.configure(stream_bytes_per_sec=8 * MIB, latency_secs=0.002)
    manager = tables.manage(slow_store.url(directory), variable, read_threads=read_threads)
    start = time.perf_counter()
    report = manager.restore()
    seconds = time.perf_counter() - start
    manager.close()
    assert report.rows == ROWS
    return tables.rows_of(variable), seconds


def test_more_streams_restore_faster(tmp_path):
    saved = tables.make_variable(dim=DIM)
    expected = tables.fill(saved, range(ROWS))
    manager = tables.manage(tmp_path, saved)
    manager.save(1)
    manager.close()
    rows, one_stream = restored(tmp_path, 1)
    assert rows == expected
    # Every byte of the values came through it.
    assert one_stream >= ROWS * DIM * 4 / (8 * MIB)
    rows, many_streams = restored(tmp_path, 12)
    assert rows == expected
    assert many_streams < one_stream / 2


@pytest.mark.parametrize("read_threads", [1, 2, 64])
def test_groups_and_dense_variables_come_side_by_side(tmp_path, read_threads):
    saved = models.build("nested")  # two tables
    models.train(saved, models.dataset(3))
    manager = acp.CheckpointManager(str(tmp_path), model=saved)
    manager.save(1)
    manager.close()
    expected = models.parts(saved)
    fresh = models.build("nested")
    models.train(fresh, models.dataset(1, seed=1))
    options = acp.CheckpointOptions(read_threads=read_threads)
    manager = acp.CheckpointManager(slow_store.url(tmp_path), model=fresh, options=options)
    manager.restore()
    assert models.parts(fresh) == expected
    manager.close()
