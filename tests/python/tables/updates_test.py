# SPDX-License-Identifier: Apache-2.0
"""Every way to change a TFRA variable is seen by its tracker and reaches the next checkpoint."""

import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from adaptcp_tf import errors
from adaptcp_tf._src.tables import tfra_own
from tests.support import tables


@pytest.fixture
def variable():
    return tables.make_variable(restrict_policy=de.FrequencyRestrictPolicy)


@pytest.fixture
def manager(tmp_path, variable):
    """Saves increments only, so that each step holds what changed since the last one."""
    manager = tables.manage(tmp_path / "run", variable, strategy="incremental")
    yield manager
    manager.close()


def save(manager, step):
    manager.save(step)
    manager.wait()
    return manager.reports[-1]


def restored(manager, variable, step):
    """Restores a step; returns the rows of the parameter and of the policy's status."""
    manager.restore(step)
    return tables.rows_of(variable), tables.rows_of(variable.restrict_policy.status)


def live(variable):
    return tables.rows_of(variable), tables.rows_of(variable.restrict_policy.status)


# Rows in some tables of the group only.


def test_each_table_keeps_its_own_set_of_keys(manager, variable):
    status = variable.restrict_policy.status
    tables.fill(variable, range(0, 60))
    tables.fill(status, range(40, 100))
    expected = live(variable)
    report = save(manager, 1)
    assert report.rows_cold == 100  # one row a key, whichever tables hold it
    tables.fill(variable, range(100, 200), seed=1)
    assert restored(manager, variable, 1) == expected
    assert (len(expected[0]), len(expected[1])) == (60, 60)


def test_row_removed_from_one_table_stays_in_the_other(manager, variable):
    status = variable.restrict_policy.status
    tables.fill(variable, range(10))
    tables.fill(status, range(10))
    save(manager, 1)
    tables.remove(variable, range(5))
    expected = live(variable)
    assert save(manager, 2).tombstones == 0
    assert restored(manager, variable, 2) == expected
    assert (len(expected[0]), len(expected[1])) == (5, 10)


# Removals.


def test_removed_rows_leave_tombstones(manager, variable):
    tables.fill(variable, range(20))
    before = live(variable)
    save(manager, 1)
    tables.remove(variable, range(15))
    after = live(variable)
    report = save(manager, 2)
    assert (report.tombstones, report.rows_cold) == (15, 0)
    assert restored(manager, variable, 2) == after
    assert restored(manager, variable, 1) == before


def test_row_removed_and_inserted_again_is_there(manager, variable):
    tables.fill(variable, range(20))
    save(manager, 1)
    tables.remove(variable, range(20))
    tables.fill(variable, range(10), seed=1)
    expected = live(variable)
    assert save(manager, 2).tombstones == 10
    tables.fill(variable, range(10, 20), seed=2)
    later = live(variable)
    save(manager, 3)
    assert restored(manager, variable, 2) == expected
    assert restored(manager, variable, 3) == later


def test_removing_what_never_was_there_changes_nothing(manager, variable):
    tables.fill(variable, range(5))
    tables.remove(variable, range(5, 50))
    expected = live(variable)
    save(manager, 1)
    assert restored(manager, variable, 1) == expected


def test_restriction_by_policy_is_a_removal(manager, variable):
    variable.restrict_policy.apply_update(tables.make_keys(tf.int64, range(50)))
    variable.restrict_policy.apply_update(tables.make_keys(tf.int64, range(20)))
    tables.fill(variable, range(50))
    save(manager, 1)
    variable.restrict(20)
    expected = live(variable)
    assert save(manager, 2).tombstones == 30
    assert restored(manager, variable, 2) == expected
    assert len(expected[0]) == 20


# Accumulation, which TFRA does itself.


@pytest.mark.parametrize("in_graph", [False, True])
def test_accumulated_rows_are_saved(tmp_path, in_graph):
    variable = tables.make_variable(bp_v2=True)
    with_manager = tables.manage(tmp_path, variable, strategy="incremental")
    keys = tables.make_keys(tf.int64, range(30))
    zeros, ones = tf.zeros([30, 4]), tf.ones([30, 4])

    def accumulate(exists):
        variable.accum(keys, zeros, ones, exists)

    step = tf.function(accumulate) if in_graph else accumulate
    step(tf.zeros([30], tf.bool))
    save(with_manager, 1)
    step(tf.ones([30], tf.bool))
    step(tf.ones([30], tf.bool))
    assert save(with_manager, 2).rows_cold == 30
    for number, total in ((1, 1.0), (2, 3.0)):
        with_manager.restore(number)
        assert (variable.lookup(keys).numpy() == total).all()
    with_manager.close()


# Changes of whole tables.


def clear(variable, directory):
    variable.clear()


def clear_in_graph(variable, directory):
    @tf.function
    def step():
        variable.clear()

    step()


def load_from_file_system(variable, directory):
    other = tables.make_variable(restrict_policy=de.FrequencyRestrictPolicy)
    tables.fill(other, range(70, 90), seed=7)
    other.save_to_file_system(str(directory))
    variable.load_from_file_system(str(directory))


def read_tensorflow_checkpoint(variable, directory):
    other = tables.make_variable(restrict_policy=de.FrequencyRestrictPolicy)
    tables.fill(other, range(70, 90), seed=7)
    path = tf.train.Checkpoint(emb=other).write(str(directory / "peer"))
    tf.train.Checkpoint(emb=variable).read(path).assert_existing_objects_matched()


REPLACEMENTS = [clear, clear_in_graph, load_from_file_system, read_tensorflow_checkpoint]


@pytest.mark.parametrize("replace", REPLACEMENTS, ids=lambda replace: replace.__name__)
def test_next_checkpoint_after_a_replacement_is_a_base(tmp_path, manager, variable, replace):
    tables.fill(variable, range(50))
    tables.fill(variable.restrict_policy.status, range(50))
    before = live(variable)
    assert save(manager, 1).kind == "base"
    replace(variable, tmp_path)
    assert live(variable)[0] != before[0]
    tables.fill(variable, range(100, 110), seed=1)
    after = live(variable)
    assert save(manager, 2).kind == "base"
    tables.fill(variable, range(110, 120), seed=2)
    later = live(variable)
    assert save(manager, 3).kind == "delta"
    for step, expected in ((1, before), (3, later), (2, after)):
        assert restored(manager, variable, step) == expected


def test_clear_waits_until_the_cut_has_its_rows(tmp_path):
    """A cut keeps the rows of its instant, also when everything is deleted right after it."""
    variable = tables.make_variable(dim=16)
    with_manager = tables.manage(tmp_path, variable)
    expected = tables.fill(variable, range(20_000))
    with_manager.save(1)
    variable.clear()
    with_manager.wait()
    assert int(variable.size()) == 0
    with_manager.restore(1)
    assert tables.rows_of(variable) == expected
    with_manager.close()


# Rows that were there before.


def test_rows_from_before_tracking_are_adopted(tmp_path):
    variable = tables.make_variable(shards=2)
    expected = tables.fill(variable, range(100))
    with_manager = tables.manage(tmp_path, variable)
    assert sum(stats["rows"] for stats in tables.stats_of(variable)) == 100
    expected.update(tables.fill(variable, range(90, 120), seed=1))
    save(with_manager, 1)
    tables.remove(variable, range(120))
    with_manager.restore(1)
    assert tables.rows_of(variable) == expected
    with_manager.close()


def test_rows_inserted_behind_the_managers_back_are_an_error(tmp_path):
    variable = tables.make_variable()

    @tf.function
    def step(keys):
        variable.upsert(keys, tf.ones([7, 4]))

    # Traced while nobody watched: this function goes past the tracker for ever.
    step(tables.make_keys(tf.int64, range(7)))
    with_manager = tables.manage(tmp_path, variable)
    save(with_manager, 1)
    step(tables.make_keys(tf.int64, range(7, 14)))
    with pytest.raises(errors.IncompatibleModelError, match="7 rows of TFRA variable 'emb'"):
        with_manager.save(2)
    with_manager.close()


@pytest.mark.parametrize("keys", [tf.int64, tf.string])
@pytest.mark.parametrize("policy", [None, de.FrequencyRestrictPolicy])
def test_row_that_tfra_made_up_is_saved(tmp_path, caplog, keys, policy):
    """As TFRA does while a table grows under load: one row that nobody inserted, in one table."""
    variable = tables.make_variable(keys=keys, restrict_policy=policy)
    with_manager = tables.manage(tmp_path, variable, strategy="incremental")
    tables.fill(variable, range(50))
    if policy:
        variable.restrict_policy.apply_update(tables.make_keys(keys, range(50)))
    save(with_manager, 1)
    stray = tables.make_keys(keys, [1234])
    tfra_own.insert(variable.tables[0], stray, tf.ones([1, 4]))
    assert save(with_manager, 2).rows_cold == (1 if policy else 51)
    assert "that no update brought" in caplog.text and "'emb'" in caplog.text
    expected = tables.rows_of(variable)
    assert len(expected) == 51 and stray.numpy()[0] in expected
    caplog.clear()
    save(with_manager, 3)
    tables.remove(variable, range(50))
    with_manager.restore()
    assert tables.rows_of(variable) == expected
    assert not caplog.text
    with_manager.close()


def test_reading_is_not_updating(manager, variable):
    tables.fill(variable, range(50))
    save(manager, 1)
    keys = tables.make_keys(tf.int64, range(80))
    variable.lookup(keys)
    variable.lookup(keys, return_exists=True)
    with tf.GradientTape():
        variable.lookup(keys)
    variable.export()
    variable.size()
    report = save(manager, 2)
    assert (report.rows_cold, report.rows_hot, report.tombstones) == (0, 0, 0)


def test_update_of_no_rows_changes_nothing(manager, variable):
    """As a shard gets, when a batch has keys of the other shards only."""
    tables.fill(variable, range(4))
    nothing = tables.make_keys(variable.key_dtype, [])
    variable.upsert(nothing, tf.zeros([0, variable.dim]))
    variable.remove(nothing)
    expected = tables.rows_of(variable)
    manager.save(1)
    manager.restore(1)
    assert tables.rows_of(variable) == expected
