# SPDX-License-Identifier: Apache-2.0
"""Deltas between checkpoints: applied in order they equal the full export; out of order they are refused."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.export import reading
from tests.support import faults, models, tables

FORMATS = ("npz", "parquet", "tfra")


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 300)


def change(variable, step):
    """Updates some rows, adds and removes some."""
    tables.fill(variable, range(0, 90, 3), seed=step)
    tables.fill(variable, range(step * 20, step * 20 + 40), seed=10 + step)
    tables.remove(variable, range(step, 150, 17))
    # Removed and back again.
    tables.remove(variable, range(0, 30, 10))
    tables.fill(variable, range(0, 30, 20), seed=step)


def run(directory, *variables, steps=4, **options):
    """Makes checkpoints; returns what each variable held at each."""
    manager = tables.manage(directory, *variables, **{"hot_threshold": 0.6, **options})
    states = {}
    for step in range(1, steps + 1):
        for variable in variables:
            change(variable, step)
        manager.save(step)
        manager.wait()
        states[step] = [tables.rows_of(variable) for variable in variables]
    manager.close()
    return states


def fresh(variable, shards=1):
    """A variable of the same name and kind that nobody checkpoints."""
    keys, values = variable.key_dtype, variable.value_dtype
    return tables.make_variable(variable.name, keys, values, variable.dim, shards)


def load_full(variable, rows):
    """Fills a variable with rows as a dict."""
    variable.upsert(
        tf.constant(list(rows), variable.key_dtype),
        tf.constant(
            np.frombuffer(b"".join(rows.values()), variable.value_dtype.as_numpy_dtype).reshape(
                len(rows), -1
            )
        ),
    )


@pytest.mark.parametrize("row_format", FORMATS)
@pytest.mark.parametrize("strategy", ["adaptive", "full", "incremental"])
def test_every_delta_in_order_equals_the_full_export(tmp_path, row_format, strategy):
    kinds = [(tf.int64, tf.float32, 4, 2), (tf.int32, tf.bfloat16, 101, 1)]
    if row_format != "tfra":
        kinds.append((tf.string, tf.float64, 3, 2))
    variables = [tables.make_variable(f"tower/{i}", *kind) for i, kind in enumerate(kinds)]
    states = run(tmp_path / "run", *variables, strategy=strategy)
    serving = [fresh(variable, shards=3) for variable in variables]
    for variable, rows in zip(serving, states[1]):
        load_full(variable, rows)
    state = 1
    for step in (2, 3, 4):
        out = tmp_path / f"delta{step}"
        report = acp.export.delta(tmp_path / "run", step - 1, step, out, format=row_format)
        state = acp.importing.delta(serving, out, at=state)
        assert [tables.rows_of(variable) for variable in serving] == states[step]
        assert (state.step, state.rows, state.removed) == (step, report.rows, report.removed)
        before, after = states[step - 1], states[step]
        assert report.rows == sum(len(new.items() - old.items()) for old, new in zip(before, after))
        assert report.removed == sum(
            len(old.keys() - new.keys()) for old, new in zip(before, after)
        )
        assert report.bytes == sum(path.stat().st_size for path in out.iterdir())


def test_deltas_over_many_steps_resharding_and_quantised_rows(tmp_path):
    variable = tables.make_variable(dim=16, shards=2)
    run(tmp_path / "run", variable, steps=2, encoding="int8")
    resharded = fresh(variable, shards=3)
    manager = tables.manage(tmp_path / "run", resharded, encoding="int4")
    manager.restore()
    change(resharded, 3)
    manager.save(3)
    manager.close()
    full = []
    for step in (1, 3):
        full.append(fresh(variable))
        reader = tables.manage(tmp_path / f"copy{step}", full[-1])
        reader.close()
        acp.export.tfra_files(tmp_path / "run", tmp_path / f"full{step}", step)
        full[-1].load_from_file_system_with_restore_function(str(tmp_path / f"full{step}"))
    report = acp.export.delta(tmp_path / "run", 1, 3, tmp_path / "delta")
    assert not report.exact
    acp.importing.delta(full[:1], tmp_path / "delta", at=1)
    assert tables.rows_of(full[0]) == tables.rows_of(full[1])


def test_delta_as_tfra_files_is_added_by_tfra(tmp_path):
    variable = tables.make_variable()
    states = run(tmp_path / "run", variable, steps=2)
    acp.export.delta(tmp_path / "run", 1, 2, tmp_path / "delta", format="tfra")
    serving = de.Variable(name="emb", dim=4, devices=["/CPU:0"])
    load_full(serving, states[1][0])
    serving.load_from_file_system(str(tmp_path / "delta"))
    removed = np.fromfile(tmp_path / "delta" / "emb_mht_1of1_rank0_size1-removed", np.int64)
    serving.remove(tf.constant(removed))
    assert tables.rows_of(serving) == states[2][0]


def test_loaded_saved_model_serves_the_rows_of_deltas(tmp_path):
    model = models.build()
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=model)
    batches = list(models.dataset(4))
    ids = models.samples(4)[0]["ids"]
    out = tmp_path / "out"

    @tf.function(input_signature=[tf.TensorSpec([None, models.FEATURES], tf.int64, name="ids")])
    def embed(ids):
        return {"vectors": model.layers[1](ids)}

    states = []
    for step in (1, 2):
        models.train(model, batches[2 * step - 2 : 2 * step])
        manager.save(step)
        manager.wait()
        states.append(model.layers[1](ids).numpy().tobytes())
    full = acp.export.saved_model(model, tmp_path / "run", 1, export_dir=out, signatures=embed)
    manager.close()
    acp.export.delta(tmp_path / "run", 1, 2, tmp_path / "delta")
    served = tf.saved_model.load(str(out))

    def answer():
        return (
            served.signatures["serving_default"](ids=tf.constant(ids))["vectors"].numpy().tobytes()
        )

    assert answer() == states[0]
    acp.importing.delta(served, tmp_path / "delta", at=full)
    assert answer() == states[1]
    assert states[0] != states[1]


# What is refused, and changes nothing.


@pytest.fixture
def deltas(tmp_path):
    """Deltas from step 1 to 2 and from 2 to 3, and a variable that holds step 1."""
    variable = tables.make_variable()
    states = run(tmp_path / "run", variable, steps=3)
    for step in (2, 3):
        acp.export.delta(tmp_path / "run", step - 1, step, tmp_path / f"delta{step}")
    serving = fresh(variable)
    load_full(serving, states[1][0])
    return serving


def test_missing_repeated_and_reordered_deltas_are_refused(tmp_path, deltas):
    before = tables.rows_of(deltas)
    with pytest.raises(
        errors.DeltaOrderError, match="from step 2 to 3. Received: tables at step 1"
    ):
        acp.importing.delta([deltas], tmp_path / "delta3", at=1)
    assert tables.rows_of(deltas) == before
    state = acp.importing.delta([deltas], tmp_path / "delta2", at=1)
    after = tables.rows_of(deltas)
    with pytest.raises(errors.DeltaOrderError, match="applied before"):
        acp.importing.delta([deltas], tmp_path / "delta2", at=state)
    assert tables.rows_of(deltas) == after
    assert acp.importing.delta([deltas], tmp_path / "delta3", at=state).step == 3


def test_delta_of_another_run_is_refused(tmp_path, deltas):
    state = acp.importing.delta([deltas], tmp_path / "delta2", at=1)
    other = dataclasses.replace(state, checkpoint="sha256:of another run")
    with pytest.raises(errors.DeltaOrderError, match="another checkpoint of step 2"):
        acp.importing.delta([deltas], tmp_path / "delta3", at=other)
    with pytest.raises(errors.InvalidOptionError, match="value for at"):
        acp.importing.delta([deltas], tmp_path / "delta3", at="2")


def test_damaged_delta_changes_nothing(tmp_path, deltas):
    before = tables.rows_of(deltas)
    names = sorted(path.name for path in (tmp_path / "delta2").iterdir())
    (tmp_path / "delta2" / names[-1]).rename(tmp_path / "away")
    with pytest.raises(errors.CorruptCheckpointError, match=names[-1]):
        acp.importing.delta([deltas], tmp_path / "delta2", at=1)
    (tmp_path / "away").rename(tmp_path / "delta2" / names[-1])
    faults.truncate(tmp_path / "delta2" / names[1], -1)
    with pytest.raises(errors.CorruptCheckpointError, match=names[1]):
        acp.importing.delta([deltas], tmp_path / "delta2", at=1)
    (tmp_path / "delta2" / "adaptcp-delta.json").write_text(json.dumps({"format": "delta"}))
    with pytest.raises(errors.CorruptCheckpointError, match="adaptcp-delta.json"):
        acp.importing.delta([deltas], tmp_path / "delta2", at=1)
    assert tables.rows_of(deltas) == before


def test_other_variables_are_refused(tmp_path, deltas):
    for other in (tables.make_variable("users"), tables.make_variable(dim=5)):
        with pytest.raises(errors.IncompatibleModelError, match="'emb'"):
            acp.importing.delta([other], tmp_path / "delta2", at=1)
        assert tables.rows_of(other) == {}


def test_wrong_steps_formats_and_keys_are_refused(tmp_path):
    variable = tables.make_variable(keys=tf.string)
    run(tmp_path / "run", variable, steps=2)
    cases = [
        ((2, 1), {}, errors.InvalidOptionError, "more than 2"),
        ((1, 7), {}, errors.CheckpointNotFoundError, "step 7"),
        ((1, 2), {"format": "csv"}, errors.InvalidOptionError, "npz, parquet, tfra"),
        ((1, 2), {"format": "tfra"}, errors.InvalidOptionError, "string keys"),
    ]
    for steps, options, error, message in cases:
        with pytest.raises(error, match=message):
            acp.export.delta(tmp_path / "run", *steps, tmp_path / "out", **options)
    assert not list(tmp_path.glob("out*"))
