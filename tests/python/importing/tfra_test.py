# SPDX-License-Identifier: Apache-2.0
"""TFRA's own files replace the rows of a model, which is checkpointed from then on."""

import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf._src.importing import from_tfra
from tests.support import models, tables
from tests.support.stores import slow_store


def written_by_tfra(directory, rows=300, **kind):
    """Files that TFRA made of a variable that nobody manages; returns the rows."""
    variable = tables.make_variable(**kind)
    expected = tables.fill(variable, range(rows))
    variable.save_to_file_system(str(directory))
    return expected


def assert_saved(directory, variable, expected, kind="base"):
    """The next checkpoint is of this kind, and restores to these rows."""
    manager = tables.manage(directory, variable)
    step = (manager.latest_step() or 0) + 1
    manager.save(step)
    manager.wait()
    assert manager.reports[-1].kind == kind
    manager.close()
    fresh = tables.make_variable(variable.name, variable.key_dtype, variable.value_dtype)
    manager = tables.manage(directory, fresh)
    manager.restore()
    manager.close()
    assert tables.rows_of(fresh) == expected


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (tf.int64, tf.float32),
        (tf.int32, tf.float64),
        (tf.int64, tf.float16),
        (tf.int32, tf.bfloat16),
    ],
    ids=lambda dtype: dtype.name,
)
@pytest.mark.parametrize("before", [1, 2])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_any_number_of_shards_into_any_other(tmp_path, keys, values, before, after):
    kind = {"keys": keys, "values": values}
    expected = written_by_tfra(tmp_path / "files", shards=before, **kind)
    variable = tables.make_variable(shards=after, **kind)
    manager = tables.manage(tmp_path / "run", variable)
    report = acp.importing.tfra_files(manager, tmp_path / "files")
    assert report.rows == 300
    assert report.bytes == 300 * (keys.size + 4 * values.size)
    assert tables.rows_of(variable) == expected
    # Rows are where lookups look for them.
    found = variable.lookup(tf.constant(list(expected), keys)).numpy()
    assert [row.tobytes() for row in found] == list(expected.values())
    manager.close()
    assert_saved(tmp_path / "run", variable, expected)


def test_rows_that_were_there_are_gone(tmp_path):
    expected = written_by_tfra(tmp_path / "files", shards=2)
    variable = tables.make_variable(shards=2)
    manager = tables.manage(tmp_path / "run", variable)
    tables.fill(variable, range(200, 500), seed=1)
    manager.save(1)
    tables.fill(variable, range(600, 700), seed=2)
    acp.importing.tfra_files(manager, tmp_path / "files")
    assert tables.rows_of(variable) == expected
    assert sum(stats["rows"] for stats in tables.stats_of(variable)) == 300
    manager.close()
    assert_saved(tmp_path / "run", variable, expected)


def test_training_goes_on_in_increments(tmp_path):
    expected = written_by_tfra(tmp_path / "files")
    variable = tables.make_variable()
    manager = tables.manage(tmp_path / "run", variable)
    acp.importing.tfra_files(manager, tmp_path / "files")
    manager.save(1)
    expected.update(tables.fill(variable, range(250, 350), seed=1))
    manager.save(2)
    manager.wait()
    assert [report.kind for report in manager.reports] == ["base", "delta"]
    manager.restore()
    assert tables.rows_of(variable) == expected
    manager.close()


def test_files_longer_than_a_block_are_read_in_blocks(tmp_path, monkeypatch):
    expected = written_by_tfra(tmp_path / "files", shards=2)
    monkeypatch.setattr(from_tfra, "_BLOCK_BYTES", 7 * 16)
    variable = tables.make_variable(shards=3)
    manager = tables.manage(tmp_path / "run", variable)
    acp.importing.tfra_files(manager, tmp_path / "files")
    assert tables.rows_of(variable) == expected
    manager.close()


def test_files_of_several_processes_are_loaded_together(tmp_path):
    expected = {}
    for rank in range(2):
        variable = tables.make_variable(shards=2)
        expected.update(tables.fill(variable, range(rank * 100, rank * 100 + 100)))
        variable.save_to_file_system(str(tmp_path / "files"), proc_size=2, proc_rank=rank)
    variable = tables.make_variable()
    manager = tables.manage(tmp_path / "run", variable)
    acp.importing.tfra_files(manager, tmp_path / "files")
    assert tables.rows_of(variable) == expected
    manager.close()


def test_files_of_tables_that_were_saved_by_themselves_are_loaded(tmp_path):
    variable = tables.make_variable(shards=2)
    expected = tables.fill(variable, range(100))
    for table in variable.tables:
        table.save_to_file_system(str(tmp_path / "files"))
    fresh = tables.make_variable()
    manager = tables.manage(tmp_path / "run", fresh)
    acp.importing.tfra_files(manager, tmp_path / "files")
    assert tables.rows_of(fresh) == expected
    manager.close()


def test_checkpoints_of_tfra_itself_are_loaded(tmp_path):
    creator = de.CuckooHashTableCreator(saver=de.FileSystemSaver())
    variable = tables.make_variable(shards=2, kv_creator=creator)
    expected = tables.fill(variable, range(100))
    tf.train.Checkpoint(emb=variable).write(str(tmp_path / "theirs" / "ckpt"))
    fresh = tables.make_variable()
    manager = tables.manage(tmp_path / "run", fresh)
    acp.importing.tfra_files(manager, tmp_path / "theirs" / "TFRADynamicEmbedding")
    assert tables.rows_of(fresh) == expected
    manager.close()


def test_variables_that_are_not_named_keep_their_rows(tmp_path):
    expected = written_by_tfra(tmp_path / "files", name="emb")
    variables = [tables.make_variable(name) for name in ("emb", "other")]
    manager = tables.manage(tmp_path / "run", *variables)
    others = tables.fill(variables[1], range(50))
    acp.importing.tfra_files(manager, tmp_path / "files", groups=["emb"])
    assert tables.rows_of(variables[0]) == expected
    assert tables.rows_of(variables[1]) == others
    manager.close()


# Models: slots, lazily built ones, `fit`.


def exported(directory, shards=1, batches=5):
    """A trained model and the files of its checkpoint."""
    model = models.build(lambda: models.functional(devices=["/CPU:0"] * shards))
    manager = acp.CheckpointManager(str(directory / "exported"), model=model)
    models.train(model, models.dataset(batches))
    manager.save(batches)
    manager.close()
    acp.export.tfra_files(directory / "exported", directory / "files")
    return model


def table_digests(model):
    return {name: d for name, d in models.parts(model).items() if name.startswith("table")}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 3)])
def test_slots_come_along(tmp_path, before, after):
    trained = table_digests(exported(tmp_path, before))
    model = models.build(lambda: models.functional(devices=["/CPU:0"] * after))
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=model)
    models.train(model, models.dataset(2, seed=3))
    report = acp.importing.tfra_files(manager, tmp_path / "files")
    assert report.tables_without_rows == ()
    assert table_digests(model) == trained
    manager.save(1)
    manager.close()
    restored = models.build(lambda: models.functional(devices=["/CPU:0"] * after))
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=restored)
    manager.restore()
    manager.close()
    assert table_digests(restored) == trained


def test_without_slots_these_start_with_the_initial_value(tmp_path):
    trained = table_digests(exported(tmp_path))
    for path in (tmp_path / "files").glob("*shadow*"):
        path.unlink()
    model = models.build()
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=model)
    models.train(model, models.dataset(2, seed=3))
    report = acp.importing.tfra_files(manager, tmp_path / "files", slots=False)
    slots = [f"emb-parameter/DynamicEmbedding/emb-shadow/{slot}" for slot in "mv"]
    assert report.tables_without_rows == tuple(slots)
    ((parameter, *_),) = [s.tables for s in tables.group_of(model.layers[1].params).shards]
    assert parameter.table.size() == report.rows
    assert table_digests(model)["table 0.0"] == trained["table 0.0"]
    manager.close()


def test_model_that_is_not_built_yet_is_loaded_by_its_first_call(tmp_path):
    ids = {"ids": models.samples(3)[0]["ids"]}
    model = models.build("lazy")
    manager = acp.CheckpointManager(str(tmp_path / "exported"), model=model)
    models.train(model, models.dataset(3))
    manager.save(3)
    manager.close()
    acp.export.tfra_files(tmp_path / "exported", tmp_path / "files")
    rows = model.emb(ids["ids"]).numpy()
    lazy = models.build("lazy")
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=lazy)
    assert acp.importing.tfra_files(manager, tmp_path / "files") is None
    lazy(ids)
    assert (lazy.emb(ids["ids"]).numpy() == rows).all()
    manager.close()


def test_fit_goes_on_from_imported_rows(tmp_path):
    trained = table_digests(exported(tmp_path))
    model = models.build()
    with_files = acp.CheckpointManager(str(tmp_path / "run"), model=model)
    acp.importing.tfra_files(with_files, tmp_path / "files")
    with_files.close()
    assert table_digests(model) == trained
    callback = acp.keras.AdaptiveCheckpoint(str(tmp_path / "run"), save_freq=2, when_busy="wait")
    model.fit(callback.resume(models.dataset(4)), callbacks=[callback], verbose=0)
    callback.close()
    assert [entry["kind"] for entry in callback.history] == ["base", "delta"]
    assert table_digests(model) != trained


# Stores.


def exports_to(url, checkpoints):
    try:
        acp.export.tfra_files(checkpoints, url)
    except acp.errors.StorageError:
        return False
    return True


def test_store_that_fails_at_times_gives_all_rows_or_an_error(tmp_path):
    saved = tables.make_variable(shards=2)
    expected = tables.fill(saved, range(100))
    manager = tables.manage(tmp_path / "run", saved)
    manager.save(1)
    manager.close()
    variable = tables.make_variable()
    manager = tables.manage(tmp_path / "other", variable)
    outcomes = set()
    for seed in range(20):
        url = f"{slow_store.url(tmp_path)}/out{seed}"
        slow_store.configure(failure_rate=0.01 * (seed % 5), seed=seed)
        all_there = exports_to(url, tmp_path / "run")
        slow_store.configure()
        variable.clear()
        before = tables.fill(variable, range(500, 520))
        try:
            acp.importing.tfra_files(manager, url)
            assert tables.rows_of(variable) == expected
        except acp.errors.AdaptCPError:
            assert not all_there
            assert tables.rows_of(variable) == before
        outcomes.add(all_there)
    assert outcomes == {True, False}
    manager.close()
