# SPDX-License-Identifier: Apache-2.0
"""Files of TFRA that cannot be loaded are refused before anything changes, by name."""

import json

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import faults, models, tables

KEYS = "emb_mht_{}of2_rank0_size1-keys"
VALUES = "emb_mht_{}of2_rank0_size1-values"


def refused(tmp_path, error, match, **kind):
    """Imports into a variable, which must keep its rows, tracked as they were; returns the error."""
    variable = tables.make_variable(**kind)
    before = tables.fill(variable, range(1000, 1050))
    manager = tables.manage(tmp_path / "run", variable)
    manager.save(1)
    manager.wait()
    with pytest.raises(error, match=match) as caught:
        acp.importing.tfra_files(manager, tmp_path / "files")
    assert tables.rows_of(variable) == before
    manager.save(2)
    manager.wait()
    # Nothing was replaced: no new base is needed.
    assert [report.kind for report in manager.reports] == ["base", "delta"]
    manager.close()
    return caught.value


@pytest.fixture
def files(tmp_path):
    """Files of two shards of 50 rows or so, of four float32 each."""
    variable = tables.make_variable(shards=2)
    tables.fill(variable, range(100))
    variable.save_to_file_system(str(tmp_path / "files"))
    return tmp_path / "files"


@pytest.mark.parametrize("name", [KEYS.format(2), VALUES.format(1)])
def test_missing_file_is_named(tmp_path, files, name):
    (files / name).unlink()
    error = refused(tmp_path, errors.CorruptCheckpointError, f"{name}' is missing.*'emb'")
    assert error.path == str(files / name)


@pytest.mark.parametrize("name", [KEYS.format(1), VALUES.format(2)])
def test_file_that_was_cut_is_named_with_what_it_should_have(tmp_path, files, name):
    size = (files / name).stat().st_size
    faults.truncate(files / name, -3)
    match = f"{name}' has the wrong size. Received: {size - 3} bytes"
    error = refused(tmp_path, errors.CorruptCheckpointError, match)
    assert error.path == str(files / name)


def test_fewer_keys_than_rows_are_refused(tmp_path, files):
    faults.truncate(files / KEYS.format(1), -8)
    values = (files / VALUES.format(1)).stat().st_size
    match = rf"1of2_rank0_size1-values' .*Received: {values} bytes. Expected: {values - 16}: "
    refused(tmp_path, errors.CorruptCheckpointError, match)


def test_rows_without_any_key_are_refused(tmp_path, files):
    faults.truncate(files / KEYS.format(1), 0)
    refused(tmp_path, errors.CorruptCheckpointError, r"-values' has the wrong size.*Expected: 0")


def test_rows_of_another_length_are_refused(tmp_path, files):
    match = r"'emb' have other rows.*with 4 float32 for each.*Expected: .* rows of 6 float32"
    refused(tmp_path, errors.IncompatibleModelError, match, dim=6)


def test_keys_of_another_dtype_are_refused(tmp_path, files):
    # As many bytes, read as twice as many keys, leave two values for each.
    match = r"with 2 float32 for each.*Expected: int32 keys, rows of 4 float32"
    refused(tmp_path, errors.IncompatibleModelError, match, keys=tf.int32)


def test_table_without_files_is_named_with_the_files_it_needs(tmp_path, files):
    match = r"'item/emb' has no files in .*'item_emb_mht_'.*item_emb_mht_1of1_rank0_size1-keys"
    refused(tmp_path, errors.IncompatibleModelError, match, name="item/emb")


def test_directory_that_is_not_there_is_named(tmp_path):
    refused(tmp_path, errors.StorageNotFoundError, "files' on host")


def test_files_of_two_saves_are_not_mixed(tmp_path, files):
    variable = tables.make_variable(shards=3)
    variable.save_to_file_system(str(files))
    match = "several saves of 'emb'.*2 shards in 1 processes and 3 shards in 1 processes"
    refused(tmp_path, errors.CorruptCheckpointError, match)


def test_missing_process_is_noticed(tmp_path, files):
    variable = tables.make_variable()
    for path in files.iterdir():
        path.unlink()
    variable.save_to_file_system(str(files), proc_size=2, proc_rank=1)
    match = "emb_mht_1of1_rank0_size2-keys' is missing"
    refused(tmp_path, errors.CorruptCheckpointError, match)


def test_string_keys_are_refused(tmp_path, files):
    match = "'emb' cannot be imported.*string keys"
    refused(tmp_path, errors.InvalidOptionError, match, keys=tf.string)


def test_variable_that_the_model_lacks_is_refused(tmp_path, files):
    manager = tables.manage(tmp_path / "run", tables.make_variable())
    with pytest.raises(errors.InvalidOptionError, match="Received: user.*of the model: emb"):
        acp.importing.tfra_files(manager, files, groups=["user", "emb"])
    manager.close()


def test_partition_function_that_is_wrong_is_named(tmp_path, files):
    variable = tables.make_variable(
        shards=2, partitioner=lambda keys, shards: tf.zeros_like(keys, tf.int32) + shards
    )
    manager = tables.manage(tmp_path / "run", variable)
    with pytest.raises(errors.IncompatibleModelError, match="Received: 2. Expected: from 0 to 1"):
        acp.importing.tfra_files(manager, files)
    manager.close()


def test_slots_without_files_are_refused(tmp_path):
    model = models.build()
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=model)
    models.train(model, models.dataset(2))
    before = models.parts(model)
    model.layers[1].params.save_to_file_system(str(tmp_path / "files"))
    with pytest.raises(errors.IncompatibleModelError, match=r"shadow/m' has no files.*slots=False"):
        acp.importing.tfra_files(manager, tmp_path / "files")
    assert models.parts(model) == before
    manager.close()


# What an export says of its own files is checked too.


@pytest.fixture
def export(tmp_path):
    """An export of two shards of four float32."""
    variable = tables.make_variable(shards=2)
    tables.fill(variable, range(100))
    manager = tables.manage(tmp_path / "exported", variable)
    manager.save(1)
    manager.close()
    acp.export.tfra_files(tmp_path / "exported", tmp_path / "files")
    return tmp_path / "files"


def test_another_dtype_of_as_many_bytes_is_noticed(tmp_path, export):
    match = r"Received: int64 keys, rows of 4 float32. Expected: int64 keys, rows of 2 float64"
    refused(tmp_path, errors.IncompatibleModelError, match, values=tf.float64, dim=2)


def test_files_cut_alike_are_noticed(tmp_path, export):
    faults.truncate(export / KEYS.format(1), -8)
    faults.truncate(export / VALUES.format(1), -16)
    refused(tmp_path, errors.CorruptCheckpointError, "not those that were exported")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": "tfra", "format_version": 2}'])
def test_damaged_listing_is_named(tmp_path, export, content):
    (export / "adaptcp-export.json").write_bytes(content)
    refused(tmp_path, errors.CorruptCheckpointError, "adaptcp-export.json' cannot be used")


def test_listing_of_a_later_format_is_refused(tmp_path, export):
    path = export / "adaptcp-export.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format_version": 2}))
    refused(tmp_path, errors.CorruptCheckpointError, "version 1. Received: .*2")
