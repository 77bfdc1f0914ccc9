# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of another model is refused before anything changes, and what differs is named."""

import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import models, tables


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of one variable, "emb": int64 -> float32 x 4 on two shards."""
    variable = tables.make_variable(shards=2)
    tables.fill(variable, range(50))
    manager = tables.manage(tmp_path, variable)
    manager.save(1)
    manager.close()
    return tmp_path


def refusal(directory, *variables):
    """Restores into other variables; returns the message, after seeing that nothing changed."""
    for variable in variables:
        tables.fill(variable, range(7), seed=9)
    before = [tables.rows_of(variable) for variable in variables]
    manager = tables.manage(directory, *variables)
    with pytest.raises(errors.IncompatibleModelError) as caught:
        manager.restore()
    manager.close()
    assert [tables.rows_of(variable) for variable in variables] == before
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_variable_of_another_name(saved):
    message = refusal(saved, tables.make_variable("item", shards=2))
    assert "'emb' of the checkpoint of step 1 is not in the model. Received: ['item']" in message


@pytest.mark.parametrize("keys", [tf.int32, tf.string], ids=lambda keys: keys.name)
def test_other_keys(saved, keys):
    message = refusal(saved, tables.make_variable(keys=keys, shards=2))
    assert (
        f"'emb' of the checkpoint of step 1 has other keys. Received: {keys.name}. Expected: int64"
        in message
    )


@pytest.mark.parametrize(
    ("values", "dim"), [(tf.float32, 5), (tf.float64, 4), (tf.int32, 4), (tf.bfloat16, 8)]
)
def test_other_rows(saved, values, dim):
    message = refusal(saved, tables.make_variable(values=values, dim=dim, shards=2))
    assert f"Received: {values.name} x {dim}. Expected: float32 x 4" in message


def test_missing_slot(tmp_path):
    variable = tables.make_variable(restrict_policy=de.FrequencyRestrictPolicy)
    tables.fill(variable, range(9))
    manager = tables.manage(tmp_path, variable)
    manager.save(1)
    manager.close()
    message = refusal(tmp_path, tables.make_variable())
    assert "frequency' that the model lacks. Received: ['parameter']" in message


def restored(directory, model):
    manager = acp.CheckpointManager(str(directory), model=model)
    try:
        return manager.restore()
    finally:
        manager.close()


@pytest.fixture
def trained(tmp_path):
    """A checkpoint of the functional model, trained with Adam."""
    model = models.build()
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    models.train(model, models.dataset(3))
    manager.save(3)
    manager.close()
    return tmp_path


def test_other_optimizer(trained):
    with pytest.raises(errors.IncompatibleModelError, match="emb-parameter.*has a table '.*v'"):
        restored(trained, models.build(optimizer="sgd_momentum"))


def test_other_dense_layer(trained):
    with pytest.raises(errors.IncompatibleModelError) as caught:
        restored(trained, models.build(lambda: models.functional(units=3)))
    assert "dense variables" in str(caught.value)
    assert "kernel: saved float32[4, 1], the model has float32[4, 3]" in str(caught.value)


def test_other_metrics_are_fine(trained):
    """A run may go on with others; those that it shares with the saved one continue."""
    model = models.build()
    model.compile(model.optimizer, loss="mse", metrics=[tf.keras.metrics.MeanSquaredError("mse")])
    assert restored(trained, model).step == 3


def test_slot_that_was_never_saved_starts_with_its_initial_value(tmp_path, caplog):
    """And the restore says so."""
    plain = tables.make_variable()
    tables.fill(plain, range(20))
    manager = tables.manage(tmp_path, plain)
    manager.save(1)
    manager.close()
    with_policy = tables.make_variable(restrict_policy=de.FrequencyRestrictPolicy)
    tables.fill(with_policy.restrict_policy.status, range(20))
    manager = tables.manage(tmp_path, with_policy)
    report = manager.restore()
    assert tables.rows_of(with_policy) == tables.rows_of(plain)
    assert int(with_policy.restrict_policy.status.size()) == 0
    (name,) = report.tables_without_rows
    assert name.startswith("emb/") and name.endswith("frequency")
    assert name in caplog.text
    manager.close()
