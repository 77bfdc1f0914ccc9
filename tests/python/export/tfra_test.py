# SPDX-License-Identifier: Apache-2.0
"""A checkpoint becomes TFRA's own files, which TFRA alone loads, bit for bit."""

import json
import subprocess
import sys
import time

import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import faults, models, processes, tables, tfra_alone

CASES = [
    (tf.int64, tf.float32, 4, 1),
    (tf.int64, tf.float32, 4, 2),
    (tf.int32, tf.float64, 3, 2),
    (tf.int64, tf.float16, 101, 1),
    (tf.int32, tf.bfloat16, 5, 2),
    (tf.int64, tf.int8, 1, 2),
]


def checkpoint(directory, variable, step=1, rows=200):
    """Saves a variable with rows; returns them."""
    expected = tables.fill(variable, range(rows))
    manager = tables.manage(directory, variable)
    manager.save(step)
    manager.wait()
    manager.close()
    return expected


def test_rows_of_every_kind_load_with_tfra_alone(tmp_path):
    variables = [tables.make_variable(f"tower/{i}_emb", *case) for i, case in enumerate(CASES)]
    # A variable without rows has files too.
    variables.append(tables.make_variable("empty", shards=2))
    manager = tables.manage(tmp_path / "run", *variables)
    expected = {v.name: tables.fill(v, range(200)) for v in variables[:-1]}
    manager.save(1)
    manager.close()
    report = acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    assert report.rows == 200 * len(CASES)
    assert report.exact
    # TFRA has another loader for other numbers of devices.
    loaded = tfra_alone.load([(tmp_path / "out", v) for v in variables], others=(1, 3))
    assert loaded == [tfra_alone.digest(expected.get(v.name, {})) for v in variables]


def trained(directory, shards):
    """Exports a trained model; returns all its TFRA variables."""
    model = models.build(
        lambda: models.functional(
            devices=["/CPU:0"] * shards, restrict_policy=de.FrequencyRestrictPolicy
        )
    )
    manager = acp.CheckpointManager(str(directory / f"run{shards}"), model=model)
    models.train(model, models.dataset(5))
    manager.save(5)
    manager.close()
    acp.export.tfra_files(directory / f"run{shards}", directory / f"out{shards}")
    parameter = model.layers[1].params
    optimizer_slots = [t.params for t in model.optimizer.variables() if hasattr(t, "params")]
    return [parameter, parameter.restrict_policy.status, *optimizer_slots]


def test_slots_load_with_tfra_alone(tmp_path):
    saved = [(tmp_path / f"out{n}", v) for n in (1, 2) for v in trained(tmp_path, n)]
    assert len({(out, v.name) for out, v in saved}) == 8
    expected = [tfra_alone.digest(tables.rows_of(v)) for _, v in saved]
    assert tfra_alone.load(saved) == expected


def test_each_step_of_a_chain_is_exported_as_it_was(tmp_path):
    variable = tables.make_variable(shards=2)
    manager = tables.manage(tmp_path / "run", variable, hot_threshold=0.6)
    states = {}
    for step in range(1, 5):
        tables.fill(variable, range(0, 120, 3), seed=step)
        tables.fill(variable, range(step * 20, step * 20 + 40), seed=10 + step)
        tables.remove(variable, range(step, 120, 17))
        manager.save(step)
        states[step] = tables.rows_of(variable)
    manager.close()
    fresh = de.Variable(name="emb", dim=4, devices=["/CPU:0"] * 2)
    for step in (2, None):
        out = tmp_path / f"out-{step}"
        assert acp.export.tfra_files(tmp_path / "run", out, step).step == (step or 4)
        fresh.clear()
        fresh.load_from_file_system(str(out))
        assert tables.rows_of(fresh) == states[step or 4]


def test_files_are_named_as_tfra_names_them(tmp_path):
    for name in ("emb", "a/b_mht_1/emb", "lot_mht_of_rows", "ünïcødé"):
        variable = tables.make_variable(name, shards=2)
        checkpoint(tmp_path / name, variable)
        variable.save_to_file_system(str(tmp_path / name / "by_tfra"))
        acp.export.tfra_files(tmp_path / name, tmp_path / name / "by_us")
        ours, theirs = (
            {path.name: path.stat().st_size for path in (tmp_path / name / by).iterdir()}
            for by in ("by_us", "by_tfra")
        )
        assert ours.pop("adaptcp-export.json") > 0
        assert ours == theirs


def test_environment_does_not_say_where_the_files_go(tmp_path, monkeypatch):
    checkpoint(tmp_path / "run", tables.make_variable())
    monkeypatch.setenv("TFRA_SAVED_KV", str(tmp_path / "elsewhere"))
    acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    assert (tmp_path / "out" / "emb_mht_1of1_rank0_size1-keys").stat().st_size == 200 * 8
    assert not (tmp_path / "elsewhere").exists()


def test_quantised_checkpoint_is_exported_and_said_to_be(tmp_path):
    variable = tables.make_variable(dim=16)
    tables.fill(variable, range(20))
    manager = tables.manage(tmp_path / "run", variable, encoding="int8")
    manager.save(1)
    manager.close()
    assert not acp.export.tfra_files(tmp_path / "run", tmp_path / "out").exact


# What is refused.


def test_string_keys_are_refused(tmp_path):
    checkpoint(tmp_path / "run", tables.make_variable(keys=tf.string))
    with pytest.raises(errors.InvalidOptionError, match="'emb' .*string keys.*int64 or int32"):
        acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_variables_that_tfra_gives_the_same_files_are_refused(tmp_path):
    variables = [tables.make_variable(name) for name in ("a/b", "a_b")]
    manager = tables.manage(tmp_path / "run", *variables)
    manager.save(1)
    manager.close()
    with pytest.raises(errors.InvalidOptionError, match="'a/b' and 'a_b' the same files"):
        acp.export.tfra_files(tmp_path / "run", tmp_path / "out")


def test_directory_with_files_is_refused_and_left_alone(tmp_path):
    checkpoint(tmp_path / "run", tables.make_variable())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "emb_mht_1of2_rank0_size1-keys").write_bytes(b"theirs")
    with pytest.raises(errors.InvalidOptionError, match="not empty"):
        acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"theirs"]


def test_step_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(errors.CheckpointNotFoundError):
        acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    checkpoint(tmp_path / "run", tables.make_variable(), step=3)
    with pytest.raises(errors.CheckpointNotFoundError, match="step 4.*Steps there: 3"):
        acp.export.tfra_files(tmp_path / "run", tmp_path / "out", 4)


# A failure leaves no half export.


def remains(directory):
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("out"))


def test_damaged_segment_leaves_nothing(tmp_path):
    checkpoint(tmp_path / "run", tables.make_variable(shards=2))
    (segment,) = tmp_path.glob("run/segments/*/g0-s1of2-base.acp")
    faults.flip(segment, segment.stat().st_size // 2)
    with pytest.raises(errors.CorruptCheckpointError, match="g0-s1of2-base.acp"):
        acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    assert remains(tmp_path) == []


def test_full_disk_leaves_nothing(tmp_path):
    checkpoint(tmp_path / "run", tables.make_variable())
    with faults.small_disk(tmp_path / "small") as disk:
        with disk.full(), pytest.raises(errors.StorageError, match="small"):
            acp.export.tfra_files(tmp_path / "run", disk.path / "out")
        assert remains(disk.path) == []


EXPORT = """
import sys
import adaptcp_tf as acp
acp.export.tfra_files(sys.argv[1], sys.argv[2])
"""


def test_killed_export_does_not_load_and_can_be_done_again(tmp_path):
    variable = tables.make_variable(dim=32, shards=2)
    expected = checkpoint(tmp_path / "run", variable, rows=150_000)
    command = [sys.executable, "-c", EXPORT, str(tmp_path / "run"), str(tmp_path / "out")]
    process = subprocess.Popen(command, env=processes.ENVIRONMENT, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("out.tmp-*/*-keys")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.0005)
    process.kill()
    process.wait()
    assert not (tmp_path / "out").exists()
    acp.export.tfra_files(tmp_path / "run", tmp_path / "out")
    fresh = de.Variable(name="emb", dim=32, devices=["/CPU:0"] * 2)
    fresh.load_from_file_system(str(tmp_path / "out"))
    assert tables.rows_of(fresh) == expected
    listing = json.loads((tmp_path / "out" / "adaptcp-export.json").read_bytes())
    assert sum(listing["tables"][0]["rows"]) == 150_000
