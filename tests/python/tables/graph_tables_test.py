# SPDX-License-Identifier: Apache-2.0
"""GraphTables: eager code works on the tables that a TF1 session trains."""

import gc
import weakref

import pytest
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.tracking import check_all_tracked
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.tables import GraphTables, tfra_own
from tests.support import sessions


def graph_with_rows(count, **arguments):
    """A session with so many rows in a variable, and its GraphTables."""
    graph = tf.Graph()
    with graph.as_default():
        keys = tf.range(count, dtype=tf.int64)
        insert = sessions.variable(**arguments).upsert(keys, tf.ones([count, sessions.DIM]))
        tables = GraphTables(graph)
        graph.finalize()
    session = tf.compat.v1.Session(graph=graph)
    session.run(insert)
    return session, tables


def rows_of(groups):
    return [shard.stats()["rows"] for group in groups for shard in group.shards]


@pytest.mark.parametrize("shards", [1, 2])
def test_trackers_are_those_that_the_session_updates(shards):
    session, tables = graph_with_rows(50, shards=shards)
    groups = tables.open(session)
    assert tables.names == ["emb"]
    assert sum(rows_of(groups)) == 50
    assert len(rows_of(groups)) == shards
    assert groups[0].shards[0].stats()["table_rows"][0] == 50 // shards


def test_stray_rows_of_a_session_are_told_once_and_training_goes_on(caplog):
    """As TFRA makes them while a table grows: behind the tracker, one now and then."""
    graph = tf.Graph()
    with graph.as_default():
        variable = sessions.variable()
        insert = variable.upsert(tf.range(50, dtype=tf.int64), tf.ones([50, sessions.DIM]))
        key = tf.compat.v1.placeholder(tf.int64, [None])
        rows = tf.ones([tf.size(key), sessions.DIM])
        behind = tfra_own.insert(variable.tables[0], key, rows)
        clear = tfra_own.clear(variable.tables[0])
        tables = GraphTables(graph)
        graph.finalize()
    session = tf.compat.v1.Session(graph=graph)
    session.run(insert)
    groups = tables.open(session)
    for stray in range(1000, 1004):
        session.run(behind, {key: [stray]})
        for _ in range(2):
            assert check_all_tracked(groups)[0]["rows"] == 50
    assert caplog.text.count("They are not saved") == 4
    session.run(behind, {key: range(2000, 2007)})
    with pytest.raises(errors.IncompatibleModelError, match="7 rows of TFRA variable 'emb'"):
        check_all_tracked(groups)
    session.run(clear)
    check_all_tracked(groups)
    assert groups[0].shards[0].strays == [0]


def test_groups_outlive_their_session():
    session, tables = graph_with_rows(50)
    groups = tables.open(session)
    session.close()
    assert rows_of(groups) == [50]


def test_released_groups_are_freed_at_once():
    """Not when Python next looks for cycles: the tables may be most of the memory."""
    session, tables = graph_with_rows(50)
    (group,) = tables.open(session)
    handle = weakref.ref(group.shards[0].handle)
    gc.disable()
    try:
        group.release()
        assert handle() is None
    finally:
        gc.enable()


def test_sessions_of_one_graph_have_tables_of_their_own():
    session, tables = graph_with_rows(50)
    first = tables.open(session)
    second = tables.open(tf.compat.v1.Session(graph=session.graph))
    assert rows_of(first) == [50]
    assert rows_of(second) == [0]


def test_cleared_tables_are_those_of_the_session():
    session, tables = graph_with_rows(50)
    (group,) = tables.open(session)
    group.clear()
    assert group.shards[0].stats()["table_rows"][0] == 0


def test_savers_built_afterwards_have_other_saveables_only():
    graph = tf.Graph()
    with graph.as_default():
        sessions.variable().upsert(tf.constant([1], tf.int64), tf.ones([1, sessions.DIM]))
        other = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -2, -3)
        before = graph.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
        GraphTables(graph).leave_savers()
        after = graph.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
    assert len(before) == 2
    assert [saveable.op is other for saveable in after] == [True]


def test_shared_group_is_taken_once():
    session, _ = graph_with_rows(5)
    with session.graph.as_default():
        session.graph._unsafe_unfinalize()
        handle = ops.adaptcp_table_group(
            shared_name="alone", key_dtype=tf.int64, group_name="alone"
        )
        token = session.run(ops.adaptcp_share_table_group(handle))
    ops.adaptcp_take_table_group(token)
    with pytest.raises(tf.errors.NotFoundError, match="taken before"):
        ops.adaptcp_take_table_group(token)
