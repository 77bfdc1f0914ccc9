# SPDX-License-Identifier: Apache-2.0
"""acp.data.prefetch: the input pipeline saves rows, and changes neither the input nor the training."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf._src.tables import begin_cut
from tests.support import fitting, models, tables
from tests.support.fitting import BATCHES

ROWS = 60


def ids_of(x, y):
    return {"emb": x["ids"]}


def begin(group):
    """Begins a cut outside of any manager; it is drained when the test says so."""
    begin_cut(
        [group],
        interval=max(shard.stats()["interval"] for shard in group.shards),
        base=True,
        hot_threshold=2.0,
        hysteresis=0.0,
        rate_half_life_intervals=16.0,
    )


def finish(group, directory):
    """Drains the cut and gives it up; returns the rows that input, drain and updates saved."""
    counts = [shard.drain(str(directory), f"s{shard.shard}") for shard in group.shards]
    for shard in group.shards:
        shard.end_cut(committed=False)
    names = ("rows_prefetched", "rows_drained", "rows_saved_on_update")
    return tuple(sum(one[name] for one in counts) for name in names)


def consume(dataset):
    for _ in dataset:
        pass


@pytest.fixture
def managed(tmp_path):
    """A variable of ROWS rows and its manager."""
    variable = tables.make_variable()
    manager = tables.manage(tmp_path / "checkpoints", variable)
    tables.fill(variable, range(ROWS))
    yield variable, manager
    manager.close()


def keys_dataset(dtype=tf.int64, batch=10):
    return tf.data.Dataset.from_tensor_slices(tables.make_keys(dtype, range(ROWS))).batch(batch)


# --- What comes out ---

ELEMENTS = {
    "tensor": lambda k: k,
    "tuple of one": lambda k: (k,),
    "pair": lambda k: ({"ids": k, "more": (k, k + 1)}, tf.cast(k, tf.float32)),
    "ragged": lambda k: {"ids": tf.RaggedTensor.from_row_lengths(k, [3, 0, 7])},
    "sparse": lambda k: {"ids": tf.sparse.from_dense(k), "none": None},
}


@pytest.mark.parametrize("element", ELEMENTS)
def test_elements_order_spec_and_cardinality_stay(managed, element):
    _, manager = managed
    dataset = keys_dataset().map(ELEMENTS[element])

    def first_ids(*components):
        return {"emb": next(t for t in tf.nest.flatten(components) if t is not None)}

    prefetched = acp.data.prefetch(dataset, manager, ids=first_ids)
    assert prefetched.element_spec == dataset.element_spec
    assert prefetched.cardinality() == dataset.cardinality()
    compared = 0
    for ours, plain in zip(prefetched, dataset):
        tf.nest.assert_same_structure(ours, plain, expand_composites=True)
        for a, b in zip(*(tf.nest.flatten(e, expand_composites=True) for e in (ours, plain))):
            if a is not None:
                np.testing.assert_array_equal(a.numpy(), b.numpy())
        compared += 1
    assert compared == ROWS // 10


def test_endless_dataset_stays_endless(managed):
    _, manager = managed
    dataset = acp.data.prefetch(keys_dataset().repeat(), manager, ids=lambda k: k)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY


# --- Who saves ---


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.string])
def test_input_saves_rows_that_the_cut_needs(tmp_path, dtype, shards):
    variable = tables.make_variable(keys=dtype, shards=shards)
    manager = tables.manage(tmp_path / "checkpoints", variable)
    tables.fill(variable, range(ROWS))
    dataset = acp.data.prefetch(keys_dataset(dtype).take(4), manager, ids=lambda k: {"emb": k})
    manager.save(1)  # finds the variable, at the latest
    manager.wait()
    begin(tables.group_of(variable))
    consume(dataset)
    tables.fill(variable, range(45), seed=1)
    assert finish(tables.group_of(variable), tmp_path) == (40, ROWS - 45, 5)
    manager.close()


IDS = {
    "any shape": lambda k: tf.reshape(k, [2, 5]),
    "ragged": lambda k: tf.RaggedTensor.from_row_lengths(k, [3, 0, 7]),
    "sparse": lambda k: tf.sparse.from_dense(k),
    "again and again": lambda k: tf.repeat(k, 300),
    "unknown": lambda k: tf.concat([k, k + 1], axis=0),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_may_be(managed, tmp_path, kind):
    variable, manager = managed
    dataset = acp.data.prefetch(keys_dataset(), manager, ids=IDS[kind])
    manager.save(1)
    manager.wait()
    begin(tables.group_of(variable))
    consume(dataset)
    # Key 0 is what a sparse tensor leaves out.
    missing = 1 if kind == "sparse" else 0
    assert finish(tables.group_of(variable), tmp_path) == (ROWS - missing, missing, 0)


def test_batches_prepared_before_the_cut_count_too(managed, tmp_path):
    variable, manager = managed
    dataset = acp.data.prefetch(keys_dataset(), manager, ids=lambda k: k, buffer_size=2)
    manager.save(1)
    manager.wait()
    consume(dataset.take(3))
    begin(tables.group_of(variable))
    consume(acp.data.prefetch(keys_dataset().take(1), manager, ids=lambda k: k))
    prefetched, _, _ = finish(tables.group_of(variable), tmp_path)
    # Two of the three batches in the window, or more if the pipeline ran ahead of `take`.
    assert prefetched >= 30


def test_nothing_happens_without_a_cut(managed):
    variable, manager = managed
    before = tables.rows_of(variable)
    dataset = acp.data.prefetch(keys_dataset(), manager, ids=lambda k: k + 1)
    manager.save(1)
    manager.wait()
    consume(dataset)
    assert tables.rows_of(variable) == before
    assert tables.stats_of(variable)[0]["rows"] == ROWS
    assert manager.reports[0].rows_prefetched == 0


def test_dataset_outlives_its_manager(managed):
    _, manager = managed
    dataset = acp.data.prefetch(keys_dataset(), manager, ids=lambda k: k)
    manager.save(1)
    manager.close()
    consume(dataset)


# --- With fit ---

FEEDS = {
    "resume of prefetch": lambda cb, ds: cb.resume(acp.data.prefetch(ds, cb, ids=ids_of)),
    "prefetch of resume": lambda cb, ds: acp.data.prefetch(cb.resume(ds), cb, ids=ids_of),
}


def dataset():
    return models.dataset(BATCHES)


plain = functools.cache(fitting.plain)


@pytest.mark.parametrize("strategy", ["adaptive", "full"])
@pytest.mark.parametrize("feed", FEEDS)
def test_training_and_resume_are_the_same_bit_for_bit(tmp_path, feed, strategy):
    arguments = {"feed": FEEDS[feed], "strategy": strategy, "save_freq": 1}
    fitting.start(tmp_path, dataset, stop_after=10, **arguments)
    resumed = fitting.start(tmp_path, dataset, **arguments)
    assert resumed.parts == plain(dataset).parts
    assert resumed.logs == plain(dataset).logs[1:]


@pytest.mark.parametrize("kind", ["functional", "subclassed", "lazy"])
@pytest.mark.parametrize("name", ["emb", "emb-parameter", None])
def test_variables_may_come_later(tmp_path, kind, name):
    model = models.build(kind)
    callback = acp.keras.AdaptiveCheckpoint(str(tmp_path / "checkpoints"), save_freq=3)
    batches = acp.data.prefetch(
        dataset(), callback, ids=lambda x, y: x["ids"] if name is None else {name: x["ids"]}
    )
    model.fit(batches, callbacks=[callback], verbose=0)
    callback.wait()
    (group,) = callback.manager._groups
    rows = group.shards[0].stats()["rows"]
    begin(group)
    consume(batches)
    assert finish(group, tmp_path) == (rows, 0, 0)
    callback.close()


# --- What is refused ---


def fit(directory, kind, ids, **options):
    model = models.build(kind)
    callback = acp.keras.AdaptiveCheckpoint(str(directory), save_freq=3, **options)
    try:
        model.fit(acp.data.prefetch(dataset(), callback, ids), callbacks=[callback], verbose=0)
    finally:
        callback.close()
    return callback


WRONG_IDS = {
    "name": (lambda x, y: {"embb": x["ids"]}, "TFRA variable 'embb'.*0 such variables.*emb-param"),
    "dtype": (
        lambda x, y: {"emb": tf.cast(x["ids"], tf.int32)},
        "Received: int32. Expected: int64",
    ),
}


@pytest.mark.parametrize("kind", ["functional", "lazy"])
@pytest.mark.parametrize("wrong", WRONG_IDS)
def test_wrong_ids_are_refused_by_fit(tmp_path, kind, wrong):
    ids, message = WRONG_IDS[wrong]
    with pytest.raises(acp.errors.InvalidOptionError, match=message):
        fit(tmp_path, kind, ids)


def test_ids_without_a_name_are_refused_when_there_are_two_variables(tmp_path):
    with pytest.raises(acp.errors.InvalidOptionError, match="the model has 2 such variables"):
        fit(tmp_path, "nested", lambda x, y: x["ids"])


@pytest.mark.parametrize("wrong", WRONG_IDS)
def test_wrong_ids_are_refused_by_the_first_save_once(managed, wrong):
    _, manager = managed
    ids, message = WRONG_IDS[wrong]
    pairs = keys_dataset().map(lambda k: ({"ids": k}, k))
    with pytest.raises(acp.errors.InvalidOptionError, match=message.replace("emb-param", "emb")):
        acp.data.prefetch(pairs, manager, ids)
        manager.save(1)
    manager.save(1)


def test_wrong_ids_are_refused_at_once_when_the_variables_are_known(managed):
    _, manager = managed
    manager.save(1)
    with pytest.raises(acp.errors.InvalidOptionError, match="TFRA variable 'item'"):
        acp.data.prefetch(keys_dataset(), manager, ids=lambda k: {"item": k})


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"saver": "/data/run1"}, "Invalid value for saver. Received: '/data/run1'"),
        ({"buffer_size": 0}, "Invalid value for buffer_size. Received: 0"),
        ({"buffer_size": True}, "Invalid value for buffer_size. Received: True"),
        ({"ids": lambda k: [k, k]}, "Invalid result of ids"),
        ({"ids": lambda k: {3: k}}, "Invalid result of ids"),
        ({"ids": lambda k: tf.cast(k, tf.float32)}, "Received: dtype float32"),
    ],
)
def test_invalid_arguments(managed, arguments, message):
    _, manager = managed
    arguments = {"saver": manager, "ids": lambda k: k, **arguments}
    with pytest.raises(acp.errors.InvalidOptionError, match=message):
        acp.data.prefetch(keys_dataset(), **arguments)


def test_graphs_are_refused(managed):
    _, manager = managed
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
        with pytest.raises(acp.errors.InvalidOptionError, match="while a graph is built"):
            acp.data.prefetch(dataset, manager, ids=lambda k: k)
