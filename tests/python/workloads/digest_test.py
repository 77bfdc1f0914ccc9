# SPDX-License-Identifier: Apache-2.0
"""Equal digests mean equal bits: the digest sees every part of the training state."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
from workloads import criteo_file, digest, models, movielens

_numbers = itertools.count()


def trained(steps=2, **options):
    """A small trained model under a name of its own, since TFRA knows tables by name."""
    ratings = movielens.load(64 * steps)
    model = models.movielens_model(dim=4, name=f"model_{next(_numbers)}", **options)
    inputs = {"user": ratings.users, "item": ratings.items}
    dataset = tf.data.Dataset.from_tensor_slices((inputs, ratings.ratings)).batch(64)
    model.run_eagerly = True  # a few steps take less time than to trace the graph
    model.fit(dataset, verbose=0)
    return model


def test_two_trainings_alike_have_equal_digests():
    assert digest.digest(trained()) == digest.digest(trained())


def test_another_seed_or_another_step_changes_the_digest():
    base = digest.digest(trained()).total
    assert digest.digest(trained(seed=2)).total != base
    assert digest.digest(trained(steps=3)).total != base


def test_subclassed_model_has_one_table_with_two_slots():
    model = models.criteo_model(dim=4, name=f"model_{next(_numbers)}")
    samples = criteo_file.read(criteo_file.locate(), 32)
    assert [len(group) for group in digest.tables(model)] == [1]
    model.run_eagerly = True
    model.fit({"ids": samples.ids, "dense": samples.dense}, samples.labels, verbose=0)
    assert [len(group) for group in digest.tables(model)] == [3]
    assert digest.digest(model).rows == len(np.unique(samples.ids))


def test_counts_rows_of_parameter_tables_and_steps():
    model = trained(steps=2)
    found = digest.digest(model)
    ratings = movielens.load(128)
    assert found.rows == len(np.unique(ratings.users)) + len(np.unique(ratings.items))
    assert found.iterations == 2


@pytest.mark.parametrize("group, place", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)])
def test_one_bit_of_one_row_changes_exactly_its_table(group, place):
    model = trained()
    before = digest.digest(model)
    variable = digest.tables(model)[group][place]
    keys, values = (tensor.numpy() for tensor in variable.export())
    values.view(np.uint32)[0, 0] ^= 1
    variable.upsert(tf.constant(keys[:1]), tf.constant(values[:1]))
    after = digest.digest(model)
    changed = {name for name in before.parts if before.parts[name] != after.parts[name]}
    assert changed == {f"table {group}.{place}"}
    assert after.total != before.total


def test_missing_row_changes_the_digest():
    model = trained()
    before = digest.digest(model)
    variable = digest.tables(model)[0][0]
    variable.remove(variable.export()[0][:1])
    after = digest.digest(model)
    assert after.rows == before.rows - 1 and after.total != before.total


def test_order_of_insertion_does_not_count():
    model = trained()
    before = digest.digest(model)
    for variable in itertools.chain(*digest.tables(model)):
        keys, values = (tensor.numpy() for tensor in variable.export())
        variable.clear()
        variable.upsert(tf.constant(keys[::-1].copy()), tf.constant(values[::-1].copy()))
    assert digest.digest(model) == before


@pytest.mark.parametrize(
    "kind, change",
    [
        ("variable", lambda model: model.layers[-1].bias.assign_add([1e-7])),
        ("optimizer", lambda model: model.optimizer.iterations.assign_add(1)),
        ("learning", lambda model: model.optimizer.learning_rate.assign(0.25)),
        ("metric", lambda model: model.metrics[0].reset_state()),
    ],
)
def test_dense_state_counts(kind, change):
    model = trained()
    before = digest.digest(model)
    change(model)
    after = digest.digest(model)
    changed = {name for name in before.parts if before.parts[name] != after.parts[name]}
    assert {name.split()[0] for name in changed} == {kind}


def test_ids_of_the_last_batch_do_not_count():
    model = trained()
    before = digest.digest(model)
    model({"user": tf.constant([1], tf.int64), "item": tf.constant([1], tf.int64)})
    assert digest.digest(model) == before


def test_written_digest_is_json_of_all_parts(tmp_path):
    found = digest.digest(trained())
    found.write(tmp_path / "digest.json")
    assert json.loads((tmp_path / "digest.json").read_text()) == found._asdict()
