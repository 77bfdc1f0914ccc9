# SPDX-License-Identifier: Apache-2.0
"""Symptoms of other systems after a restart: what came back was less than what was saved."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import faults, fitting, models, processes, tables

RESTART = """
import sys
import adaptcp_tf as acp
from tests.support import fitting, models
model = models.build()
manager = acp.CheckpointManager(sys.argv[1], model=model)
manager.restore(3)
restored = models.parts(model)
manager.close()
trained = fitting.start(sys.argv[1], lambda: models.dataset(fitting.BATCHES), epochs=1).parts
print("restored", *(v for k, v in restored.items() if not k.startswith("metric")))
print("trained", *trained.values())
"""


def test_reload_brings_back_dense_weights_only(tmp_path):
    """TFRA #451, keras #19389: slots and rows were lost after a restart."""
    at_three = fitting.start(tmp_path, lambda: models.dataset(fitting.BATCHES), stop_after=3)
    whole = fitting.plain(lambda: models.dataset(fitting.BATCHES), epochs=1)
    printed = dict(
        (line.split()[0], line.split()[1:])
        for line in processes.run(RESTART, tmp_path).stdout.splitlines()
        if line.startswith(("restored", "trained"))
    )
    assert sum(name.startswith("table 0.") for name in at_three.parts) == 3
    expected = [v for k, v in at_three.parts.items() if not k.startswith("metric")]
    assert printed["restored"] == expected
    assert printed["trained"] == list(whole.parts.values())


@pytest.mark.parametrize("called_before", [False, True])
def test_lazily_built_model_loses_its_tables(tmp_path, called_before):
    """TFRA #370: under CheckpointManager, tables made by the first call were not restored."""
    batches = list(models.dataset(4))
    model = models.build("lazy")
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    models.train(model, batches[:3])
    manager.save(3)
    (loss,) = models.train(model, batches[3:])
    manager.close()

    model = models.build("lazy")
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    if called_before:
        model(batches[0][0])
    manager.restore()
    assert models.train(model, batches[3:]) == [loss]
    manager.close()


@pytest.mark.parametrize("values", [tf.float32, tf.bfloat16], ids=lambda values: values.name)
@pytest.mark.parametrize("dim", tables.DIMS)
def test_every_row_restored_as_the_first_row(tmp_path, values, dim):
    """TFRA #363, #266: and bfloat16 rows were broken altogether."""
    saved = tables.make_variable(values=values, dim=dim)
    expected = tables.fill(saved, range(1, 300))
    fresh = tables.make_variable(values=values, dim=dim)
    assert tables.saved_and_restored(tmp_path, saved, fresh) == expected
    if dim > 2:
        assert len(set(expected.values())) == 299


@pytest.mark.parametrize("policy", [de.TimestampRestrictPolicy, de.FrequencyRestrictPolicy])
def test_eviction_state_saved_for_the_first_shard_only(tmp_path, policy):
    """TFRA #491."""
    saved, fresh = (tables.make_variable(shards=4, restrict_policy=policy) for _ in range(2))
    saved.restrict_policy.apply_update(tables.make_keys(tf.int64, range(200)))
    tables.fill(saved, range(200))
    tables.saved_and_restored(tmp_path, saved, fresh)
    for ours, theirs in zip(
        fresh.restrict_policy.status.tables, saved.restrict_policy.status.tables
    ):
        assert tables.as_dict(*ours.export()) == tables.as_dict(*theirs.export())
        assert int(ours.size()) > 0


NAMES = [
    "x" * 300,
    "/".join(["scope"] * 60),
    "späte/Gruppe/埋め込み",
    "../../etc/passwd",
    'quotes "and" \\ back\tslashes\n',
]


@pytest.mark.parametrize("name", NAMES)
def test_long_variable_name_makes_a_file_name_too_long(tmp_path, name):
    """TFRA #448: file names were made of variable scopes."""
    saved, fresh = (tables.make_variable(name, shards=2) for _ in range(2))
    expected = tables.fill(saved, range(50))
    assert tables.saved_and_restored(tmp_path, saved, fresh) == expected
    assert all(len(path.name) < 60 for path in tmp_path.rglob("*"))


def test_missing_slot_becomes_1e38(tmp_path):
    """DeepRec #1023: a slot that was not in the checkpoint held garbage instead of its initial value."""

    def build():
        model = models.build(optimizer="legacy_adagrad")  # its accumulator starts with 0.1
        model.optimizer._create_all_weights(model.trainable_variables)
        (layer,) = models.digest.embeddings(model)
        return model, layer.params, layer.optimizer_vars[0]

    keys = tf.range(20, dtype=tf.int64)
    model, parameter, accumulator = build()
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    parameter.upsert(keys, tf.ones([20, 4]))
    accumulator.upsert(keys[:5], tf.fill([5, 4], 7.0))
    manager.save(1)
    manager.close()

    model, parameter, accumulator = build()
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    manager.restore()
    manager.close()
    assert (parameter.lookup(keys).numpy() == 1).all()
    assert (accumulator.lookup(keys).numpy()[:5] == 7).all()
    np.testing.assert_array_equal(accumulator.lookup(keys).numpy()[5:], np.float32(0.1))
    assert int(accumulator.size()) == 5


@pytest.mark.parametrize("k", range(8))
def test_base_plus_increments_restored_wrongly(tmp_path, k):
    """DeepRec #999: a base and k increments, for any k, against a plain dict."""
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    rng = np.random.default_rng(k)
    expected = {}
    for step in range(1, k + 2):
        expected.update(tables.fill(variable, rng.integers(0, 100, 40), seed=step))
        gone = rng.integers(0, 100, 10)
        tables.remove(variable, gone)
        for key in tables.make_keys(tf.int64, gone).numpy():
            expected.pop(key, None)
        manager.save(step)
    manager.wait()
    assert [report.kind for report in manager.reports] == ["base"] + ["delta"] * k
    tables.fill(variable, range(200), seed=50)
    manager.restore()
    assert tables.rows_of(variable) == expected
    manager.close()


def test_missing_directory_loads_as_empty(tmp_path):
    """TFRA 0.8.1: a path that did not exist restored no rows, without a word."""
    variable = tables.make_variable()
    expected = tables.fill(variable, range(5))
    manager = tables.manage(tmp_path / "mistyped", variable)
    with pytest.raises(FileNotFoundError, match="mistyped"):
        manager.restore()
    assert tables.rows_of(variable) == expected
    manager.close()


@pytest.mark.parametrize("shard", [0, 1])
def test_lost_shard_loads_half_of_the_rows(tmp_path, shard):
    """TFRA 0.8.1: one of two shards lost, 50 of 100 rows were loaded, without a word."""
    variable = tables.make_variable(shards=2)
    tables.fill(variable, range(100))
    manager = tables.manage(tmp_path, variable)
    manager.save(1)
    manager.wait()
    (path,) = tmp_path.glob(f"segments/*/g0-s{shard}of2-base.acp")
    path.unlink()
    with pytest.raises(errors.CorruptCheckpointError, match=path.name):
        manager.restore()
    assert int(variable.size()) == 100
    faults.truncate(next(tmp_path.glob(f"segments/*/g0-s{1 - shard}of2-base.acp")), 0)
    with pytest.raises(errors.CorruptCheckpointError, match="of2-base.acp"):
        manager.restore()
    manager.close()


def test_rows_that_are_not_in_the_checkpoint_survive_a_restore(tmp_path):
    """TFRA 0.8.1: a restore did not clear the tables."""
    variable = tables.make_variable(shards=2, restrict_policy=de.FrequencyRestrictPolicy)
    status = variable.restrict_policy.status
    manager = tables.manage(tmp_path, variable)
    expected = tables.fill(variable, range(50)), tables.fill(status, range(50))
    manager.save(1)
    tables.fill(variable, range(40, 500), seed=1)
    tables.fill(status, range(40, 500), seed=1)
    manager.restore(1)
    assert (tables.rows_of(variable), tables.rows_of(status)) == expected
    # Nor does anything of them come back through the next checkpoint.
    manager.save(2)
    manager.wait()
    tables.fill(variable, range(9), seed=2)
    manager.restore(2)
    assert (tables.rows_of(variable), tables.rows_of(status)) == expected
    manager.close()


STRING_KEYS = """
import sys
import tensorflow as tf
from tests.support import tables
variable = tables.make_variable(keys=tf.string, shards=2)
manager = tables.manage(sys.argv[1], variable)
manager.restore()
keys = tables.make_keys(tf.string, range(2000))
expected = tables.as_dict(keys, tables.make_rows(tf.float32, 4, range(2000)))
assert tables.rows_of(variable) == expected
assert tables.as_dict(keys, variable.lookup(keys)) == expected
tables.fill(variable, range(1990, 2010), seed=1)
manager.save(2)
manager.close()
print("ok")
"""


def test_string_keys_crash_the_process_that_loads_them(tmp_path):
    """TFRA 0.8.1: they were written as raw pointers."""
    variable = tables.make_variable(keys=tf.string, shards=2)
    expected = tables.fill(variable, range(2000))
    manager = tables.manage(tmp_path, variable)
    manager.save(1)
    manager.close()
    assert processes.run(STRING_KEYS, tmp_path).stdout.split()[-1] == "ok"
    expected.update(tables.fill(variable, range(1990, 2010), seed=1))
    tables.fill(variable, range(3000), seed=2)
    manager = tables.manage(tmp_path, variable)
    assert manager.restore().step == 2
    assert tables.rows_of(variable) == expected
    manager.close()
