# SPDX-License-Identifier: Apache-2.0
"""Deltas between checkpoints: applied in order they equal the full export."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.export import reading
from adaptcp_tf._src.maintenance import compact
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.storage import checksums
from tests.support import deltas, models, tables
from tests.support.stores import slow_store


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 300)


@pytest.mark.parametrize("row_format", deltas.FORMATS)
@pytest.mark.parametrize("strategy", ["adaptive", "full", "incremental"])
def test_every_delta_in_order_equals_the_full_export(tmp_path, row_format, strategy):
    kinds = [(tf.int64, tf.float32, 4, 2), (tf.int32, tf.bfloat16, 101, 1)]
    if row_format != "tfra":
        kinds.append((tf.string, tf.float64, 3, 2))
    variables = [tables.make_variable(f"tower/{i}", *kind) for i, kind in enumerate(kinds)]
    states = deltas.run(tmp_path / "run", *variables, strategy=strategy)
    serving = [deltas.fresh(variable, shards=3) for variable in variables]
    for variable, rows in zip(serving, states[1]):
        deltas.load_full(variable, rows)
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
    deltas.run(tmp_path / "run", variable, steps=2, encoding="int8")
    resharded = deltas.fresh(variable, shards=3)
    manager = tables.manage(tmp_path / "run", resharded, encoding="int4")
    manager.restore()
    deltas.change(resharded, 3)
    manager.save(3)
    manager.close()
    full = []
    for step in (1, 3):
        full.append(deltas.fresh(variable))
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
    states = deltas.run(tmp_path / "run", variable, steps=2)
    acp.export.delta(tmp_path / "run", 1, 2, tmp_path / "delta", format="tfra")
    serving = de.Variable(name="emb", dim=4, devices=["/CPU:0"])
    deltas.load_full(serving, states[1][0])
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


@pytest.mark.parametrize("row_format", deltas.FORMATS)
def test_compaction_in_between_does_not_break_the_chain(tmp_path, row_format):
    """Each step is compacted after a delta that leads to it, and before the one from it."""
    variable = tables.make_variable(shards=2)
    serving = deltas.fresh(variable)
    state = 1
    manager = deltas.manage(tmp_path / "run", variable, strategy="incremental")
    for step in range(1, 5):
        deltas.change(variable, step)
        manager.save(step)
        manager.wait()
        expected = tables.rows_of(variable)
        if step == 1:
            deltas.load_full(serving, expected)
        else:
            out = tmp_path / f"delta{step}"
            acp.export.delta(tmp_path / "run", step - 1, step, out, format=row_format)
            state = acp.importing.delta([serving], out, at=state)
        assert tables.rows_of(serving) == expected
        manager.close()
        before = CheckpointStore(tmp_path / "run").read(step)
        assert compact(tmp_path / "run").compacted == (step > 1)
        assert CheckpointStore(tmp_path / "run").read(step).kind == "base"
        assert (before.kind == "base") == (step == 1)
        manager = deltas.manage(tmp_path / "run", variable, strategy="incremental")
        manager.restore()
    manager.close()


def test_report_of_an_export_is_that_of_the_compacted_checkpoint_too(tmp_path):
    variable = tables.make_variable()
    deltas.run(tmp_path / "run", variable, steps=2, strategy="incremental")
    before = acp.export.npz_files(tmp_path / "run", tmp_path / "before")
    assert compact(tmp_path / "run").compacted
    after = acp.export.npz_files(tmp_path / "run", tmp_path / "after")
    assert before.checkpoint == after.checkpoint


@pytest.mark.parametrize("row_format", deltas.FORMATS)
def test_delta_from_a_store_that_fails_is_applied_again_until_it_is_whole(
    tmp_path, monkeypatch, row_format
):
    # So that there are some requests, but not so many that one of them always fails.
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 1500)
    monkeypatch.setattr(checksums, "_BLOCK_BYTES", 1000)
    variable = tables.make_variable(shards=2)
    states = deltas.run(tmp_path / "run", variable, steps=2)
    serving = deltas.fresh(variable)
    deltas.load_full(serving, states[1][0])
    slow_store.configure()
    out = slow_store.url(tmp_path / "delta")
    acp.export.delta(tmp_path / "run", 1, 2, out, format=row_format)
    failed, state = 0, None
    slow_store.configure(failure_rate=0.1, seed=1)
    try:
        while state is None:
            try:
                state = acp.importing.delta([serving], out, at=1)
            except errors.StorageError:
                failed += 1
    finally:
        slow_store.configure()
    assert failed
    assert (state.step, tables.rows_of(serving)) == (2, states[2][0])
