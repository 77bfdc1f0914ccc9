# SPDX-License-Identifier: Apache-2.0
"""TrackedTableCreator: tables are tracked from their first update on, manager or not."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf._src.ops.library import ops
from tests.support import tables


@pytest.fixture
def graph():
    """A TF1 graph with a tracked variable and its session."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield session


def make_variable(**arguments):
    return de.get_variable("emb", dim=4, kv_creator=acp.TrackedTableCreator(), **arguments)


def stats(session, variable):
    shards = tables.group_of(variable).shards
    return [json.loads(session.run(ops.adaptcp_group_stats(s.handle))) for s in shards]


def test_updates_are_tracked_without_a_manager():
    variable = tables.make_variable(kv_creator=acp.TrackedTableCreator(), shards=2)
    tables.fill(variable, range(50))
    assert sum(stats["rows"] for stats in tables.stats_of(variable)) == 50


def test_other_creators_are_not_tracked_without_a_manager():
    variable = tables.make_variable()
    tables.fill(variable, range(50))
    assert not hasattr(variable, "_adaptcp_group")


def test_tracked_function_made_before_the_manager_counts(tmp_path):
    variable = tables.make_variable(kv_creator=acp.TrackedTableCreator())

    @tf.function
    def step(keys, rows):
        variable.upsert(keys, rows)

    keys, rows = tables.make_keys(tf.int64, range(9)), tf.ones([9, 4])
    step(keys[:5], rows[:5])
    manager = tables.manage(tmp_path, variable)
    manager.save(1)
    step(keys[5:], rows[5:])
    manager.save(2)
    manager.wait()
    assert manager.restore(1).rows == 5
    assert manager.restore(2).rows == 9
    manager.close()


def test_inserts_and_removes_of_a_graph_are_tracked(graph):
    variable = make_variable(devices=["/CPU:0"] * 2)
    keys = tf.compat.v1.placeholder(tf.int64, [None])
    insert = variable.upsert(keys, tf.ones([tf.size(keys), 4]))
    remove = variable.remove(keys)
    graph.run(insert, {keys: range(70)})
    assert [shard["rows"] for shard in stats(graph, variable)] == [35, 35]
    graph.run(remove, {keys: range(0, 70, 2)})
    assert [shard["rows"] for shard in stats(graph, variable)] == [35, 35]  # until it is saved
    assert graph.run(variable.size()) == 35


def test_whole_table_changes_of_a_graph_are_tracked(graph):
    variable = make_variable()
    keys = tf.constant(np.arange(30))
    insert, clear = variable.upsert(keys, tf.ones([30, 4])), variable.clear()
    graph.run(insert)
    graph.run(clear)
    (after,) = stats(graph, variable)
    assert (after["rows"], after["base_required"]) == (0, True)


def train_op(variable, ids):
    rows, trainable = de.embedding_lookup(variable, ids, name="lookup", return_trainable=True)
    optimizer = de.DynamicEmbeddingOptimizer(tf.compat.v1.train.AdamOptimizer(0.1))
    return optimizer.minimize(tf.reduce_sum(rows**2), var_list=[trainable]), optimizer


def test_slots_of_a_graph_belong_to_the_group_of_their_parameter(graph):
    variable = make_variable(initializer=tf.compat.v1.ones_initializer())
    ids = tf.compat.v1.placeholder(tf.int64, [None])
    step, _ = train_op(variable, ids)
    graph.run(tf.compat.v1.global_variables_initializer())
    graph.run(step, {ids: range(40)})
    (shard,) = tables.group_of(variable).shards
    assert shard.tables[0].name == "parameter"
    assert len(shard.tables) == 3
    assert stats(graph, variable)[0]["rows"] == 40


def test_cut_of_a_graph_can_be_drained(graph, tmp_path):
    variable = make_variable(initializer=tf.compat.v1.ones_initializer())
    ids = tf.compat.v1.placeholder(tf.int64, [None])
    step, _ = train_op(variable, ids)
    (shard,) = tables.group_of(variable).shards
    begin = ops.adaptcp_begin([shard.handle], 1, True, 2.0, 0.0, 16.0)
    drain = ops.adaptcp_drain(shard.handle, str(tmp_path), "g0-s0of1")
    end = ops.adaptcp_end_cut(shard.handle, True)
    graph.run(tf.compat.v1.global_variables_initializer())
    graph.run(step, {ids: range(40)})
    graph.run(begin)
    graph.run(step, {ids: range(20, 60)})
    result = json.loads(graph.run(drain))
    graph.run(end)
    assert result["rows_saved_on_update"] == 20
    assert result["rows_drained"] == 20
    assert [s["rows"] for s in result["segments"]] == [40]
    assert (tmp_path / result["segments"][0]["file_name"]).exists()
