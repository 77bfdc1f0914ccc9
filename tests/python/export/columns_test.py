# SPDX-License-Identifier: Apache-2.0
"""A checkpoint becomes npz or Parquet files, which NumPy and pyarrow alone read, bit for bit."""

import json
import sys

import numpy as np
import pyarrow.parquet
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.export import reading
from adaptcp_tf.cli import main
from tests.support import faults, models, tables

CASES = [
    (tf.int64, tf.float32, 4, 2),
    (tf.int32, tf.float64, 3, 1),
    (tf.int64, tf.float16, 101, 1),
    (tf.int32, tf.bfloat16, 5, 2),
    (tf.int64, tf.int8, 1, 2),
    (tf.string, tf.float32, 3, 2),
    (tf.string, tf.bool, 2, 1),
]
EXPORTS = {"npz": acp.export.npz_files, "parquet": acp.export.parquet_files}


def read_npz(path):
    with np.load(path) as arrays:
        keys = arrays["keys"]
        if "key_offsets" in arrays:
            ends = arrays["key_offsets"]
            keys = [keys[a:b].tobytes() for a, b in zip(ends, ends[1:])]
        return list(keys), arrays["values"]


def read_parquet(path):
    table = pyarrow.parquet.read_table(path)
    values = table["values"].combine_chunks()
    flat = values.flatten().to_numpy(zero_copy_only=False)
    return table["key"].to_pylist(), flat.reshape(len(table), values.type.list_size)


READERS = {"npz": read_npz, "parquet": read_parquet}


def read(directory):
    """TFRA variable -> key -> bytes of its row, by the listing of an export."""
    listing = json.loads((directory / "adaptcp-export.json").read_bytes())
    found = {}
    for table in listing["tables"]:
        rows = found.setdefault(table["variable"], {})
        dtype = tf.as_dtype(table["dtype"]).as_numpy_dtype
        for file in table["files"]:
            assert (directory / file["name"]).stat().st_size == file["bytes"]
            keys, values = READERS[listing["format"]](directory / file["name"])
            assert len(keys) == len(values) == file["rows"]
            assert values.shape[1] == table["dim"]
            rows.update(zip(keys, (row.tobytes() for row in values.astype(dtype))))
        assert table["rows"] == sum(file["rows"] for file in table["files"])
    return found


@pytest.mark.parametrize("row_format", EXPORTS)
def test_rows_of_every_kind_are_exported(tmp_path, row_format, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 300)  # so that tables come in many blocks
    # Names with more characters than those of files may have.
    names = [f"{i}/{'tower' * 60}/emb" for i in range(len(CASES))]
    variables = [tables.make_variable(name, *case) for name, case in zip(names, CASES)]
    variables.append(tables.make_variable("empty"))
    manager = tables.manage(tmp_path / "run", *variables)
    expected = {v.name: tables.fill(v, range(100)) for v in variables[:-1]}
    manager.save(1)
    manager.close()
    report = EXPORTS[row_format](tmp_path / "run", tmp_path / "out")
    assert read(tmp_path / "out") == {**expected, "empty": {}}
    sizes = [path.stat().st_size for path in (tmp_path / "out").iterdir()]
    assert (report.rows, report.bytes, report.files) == (
        len(expected) * 100,
        sum(sizes),
        len(sizes),
    )


def test_slots_of_an_older_step_are_exported(tmp_path, capsys):
    model = models.build()
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=model)
    models.train(model, models.dataset(3))
    manager.save(3)
    manager.wait()
    slots = [t.params for t in model.optimizer.variables() if hasattr(t, "params")]
    variables = [model.layers[1].params, *slots]
    expected = {v.name: tables.rows_of(v) for v in variables}
    models.train(model, models.dataset(2, seed=1))
    manager.save(5)
    manager.close()
    for row_format in EXPORTS:
        out = tmp_path / row_format
        command = ["export", str(tmp_path / "run"), "--step", "3", "--format", row_format, str(out)]
        assert main([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["step"] == 3
        assert read(out) == expected
    assert len(expected) == 3


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    variable = tables.make_variable()
    tables.fill(variable, range(5))
    manager = tables.manage(tmp_path / "run", variable)
    manager.save(1)
    manager.close()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(errors.InvalidOptionError, match="pip install pyarrow"):
        acp.export.parquet_files(tmp_path / "run", tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_damage_leaves_nothing(tmp_path):
    variable = tables.make_variable(shards=2)
    tables.fill(variable, range(50))
    manager = tables.manage(tmp_path / "run", variable)
    manager.save(1)
    manager.close()
    (segment,) = tmp_path.glob("run/segments/*/g0-s1of2-base.acp")
    faults.flip(segment, segment.stat().st_size // 2)
    with pytest.raises(errors.CorruptCheckpointError, match="g0-s1of2-base.acp"):
        acp.export.npz_files(tmp_path / "run", tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_object_storage_gets_the_same_files(tmp_path):
    variable = tables.make_variable()
    tables.fill(variable, range(50))
    manager = tables.manage(tmp_path / "run", variable)
    manager.save(1)
    manager.close()
    acp.export.npz_files(tmp_path / "run", tmp_path / "out")
    acp.export.npz_files(tmp_path / "run", "ram://exports/out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert sorted(tf.io.gfile.listdir("ram://exports/out")) == names
    for name in names:
        with tf.io.gfile.GFile(f"ram://exports/out/{name}", "rb") as file:
            assert len(file.read()) == (tmp_path / "out" / name).stat().st_size
