# SPDX-License-Identifier: Apache-2.0
"""A variable may have another number of devices than at the time of the save."""

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import models, tables

SHARDS = (1, 2, 3, 4, 8)


def train(manager, variable, first_step=1):
    """A base, increments with removed rows, differentials; rows come back and new ones are born."""
    for step in range(first_step, first_step + 5):
        tables.fill(variable, range(0, 200, 3), seed=step)
        tables.fill(variable, range(step * 20, step * 20 + 60), seed=10 + step)
        if step % 2:
            tables.remove(variable, range(step, 200, 17))
        manager.save(step)
    manager.wait()


@pytest.mark.parametrize("keys", [tf.int64, tf.int32, tf.string], ids=lambda keys: keys.name)
@pytest.mark.parametrize("before", SHARDS)
def test_any_number_into_any_other(tmp_path, before, keys):
    saved = tables.make_variable(shards=before, keys=keys)
    manager = tables.manage(tmp_path, saved, hot_threshold=0.7)
    train(manager, saved)
    manager.close()
    expected = tables.rows_of(saved)
    for after in SHARDS:
        variable = tables.make_variable(shards=after, keys=keys)
        manager = tables.manage(tmp_path, variable, restore_threads=3)
        report = manager.restore()
        assert tables.rows_of(variable) == expected
        assert report.rows == len(expected)
        assert sum(stats["rows"] for stats in tables.stats_of(variable)) == len(expected)
        # Rows are where lookups look for them.
        found = variable.lookup(tf.constant(list(expected), keys)).numpy()
        assert [row.tobytes() for row in found] == list(expected.values())
        manager.close()


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 3), (3, 1), (1, 4)])
def test_training_goes_on_and_is_restored_again(tmp_path, before, after):
    saved = tables.make_variable(shards=before)
    manager = tables.manage(tmp_path, saved, hot_threshold=0.7)
    train(manager, saved)
    manager.close()
    variable = tables.make_variable(shards=after)
    manager = tables.manage(tmp_path, variable, hot_threshold=0.7)
    manager.restore()
    train(manager, variable, first_step=6)
    # As many shards go on with the chain; others need a new one.
    assert manager.reports[0].kind == ("delta" if before == after else "base")
    assert {report.kind for report in manager.reports[1:]} == {"delta"}
    manager.close()
    expected = tables.rows_of(variable)
    fresh = tables.make_variable(shards=5)
    other = tables.manage(tmp_path, fresh)
    other.restore()
    assert tables.rows_of(fresh) == expected
    assert CheckpointStore(str(tmp_path)).all_steps() == list(range(1, 11))
    other.restore(5)
    assert tables.rows_of(fresh) == tables.rows_of(saved)
    other.close()


def test_partition_function_of_ones_own_is_asked(tmp_path):
    def by_tens(keys, shards):
        return tf.cast(tf.math.floormod(keys // 10, shards), tf.int32)

    saved = tables.make_variable(shards=2)
    manager = tables.manage(tmp_path, saved)
    expected = tables.fill(saved, range(500))
    manager.save(1)
    manager.close()
    # The same number of devices, but other rows on each.
    for shards in (2, 3):
        variable = tables.make_variable(shards=shards, partitioner=by_tens)
        manager = tables.manage(tmp_path, variable)
        manager.restore()
        manager.close()
        assert tables.rows_of(variable) == expected
        found = variable.lookup(tf.constant(list(expected), tf.int64)).numpy()
        assert [row.tobytes() for row in found] == list(expected.values())


def test_partition_function_that_is_wrong_is_named(tmp_path):
    saved = tables.make_variable()
    manager = tables.manage(tmp_path, saved)
    tables.fill(saved, range(50))
    manager.save(1)
    manager.close()
    variable = tables.make_variable(
        shards=2, partitioner=lambda keys, shards: tf.zeros_like(keys, tf.int32) + shards
    )
    manager = tables.manage(tmp_path, variable)
    with pytest.raises(errors.IncompatibleModelError, match="from 0 to 1, received 2"):
        manager.restore()
    manager.close()


@pytest.mark.parametrize(("before", "after"), [(1, 3), (4, 2)])
def test_slots_and_dense_variables_come_along(tmp_path, before, after):
    def build(shards):
        devices = ["/CPU:0"] * shards
        model = models.build(lambda: models.functional(devices=devices))
        return model, acp.CheckpointManager(str(tmp_path), model=model)

    saved, manager = build(before)
    models.train(saved, models.dataset(5))
    manager.save(5)
    manager.close()
    restored, manager = build(after)
    models.train(restored, models.dataset(2, seed=3))
    manager.restore()
    assert models.parts(restored) == models.parts(saved)
    models.train(restored, models.dataset(3, seed=4))
    manager.save(8)
    manager.wait()
    assert manager.reports[0].kind == "base"
    manager.close()
