# SPDX-License-Identifier: Apache-2.0
"""A checkpoint exported for serving, by a model without rows or by a SavedModel of any age."""

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.export import reading
from adaptcp_tf.cli import main
from tests.support import faults, models, serving, tables

# More ids than the models were trained on: some have no row.
ALL_IDS = models.samples(6)[0]["ids"]
# Trained in the first two steps.
KNOWN_IDS = models.samples(2)[0]["ids"]


def predictions(model, ids):
    """What the live model predicts, as bytes."""
    return tf.function(model)({"ids": tf.constant(ids)}, training=False).numpy().tobytes()


def train(directory, build=models.functional, ids=ALL_IDS):
    """Trains, with a checkpoint and an export each step; returns what the model predicted at each."""
    model = models.build(build)
    manager = acp.CheckpointManager(str(directory / "run"), model=model)
    predicted = {}
    for step, batch in enumerate(models.dataset(4), start=1):
        models.train(model, [batch])
        manager.save(step)
        manager.wait()
        predicted[step] = predictions(model, ids)
    options = tf.saved_model.SaveOptions(namespace_whitelist=["TFRA"])
    model.save(directory / "by_keras", options=options)
    acp.export.saved_model(model, export_dir=directory / "by_us")
    manager.close()
    return predicted


def served(*directories, ids=ALL_IDS):
    """What SavedModels predict where adaptcp_tf cannot be imported."""
    calls = [(directory, "serving_default", {"ids": ids}) for directory in directories]
    return [list(answer.values()) for answer in serving.serve(*calls)]


def test_any_step_is_exported_by_a_model_without_training_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 100)  # so that tables come in many blocks
    predicted = train(tmp_path)
    tables.start_over()
    model = models.functional()
    reports = [
        acp.export.saved_model(model, tmp_path / "run", step, export_dir=tmp_path / f"out{step}")
        for step in (2, None)
    ]
    assert [report.step for report in reports] == [2, 4]
    assert served(tmp_path / "out2", tmp_path / "outNone") == [[predicted[2]], [predicted[4]]]
    assert tables.rows_of(model.layers[1].params) == {}


def test_saved_model_is_refreshed_without_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 100)
    predicted = train(tmp_path)
    outs = []
    for by in ("by_us", "by_keras"):
        outs.append(tmp_path / f"{by}_2")
        template = ["--template", str(tmp_path / by), str(outs[-1])]
        command = ["export-savedmodel", str(tmp_path / "run"), "--step", "2", *template]
        assert main(command) == 0
        assert capsys.readouterr().out.startswith("step 2: ")
        assert serving.ops_of(outs[-1]) == serving.ops_of(tmp_path / by)
    assert served(*outs, tmp_path / "by_us") == [[predicted[2]], [predicted[2]], [predicted[4]]]


def test_rows_go_to_the_shards_of_the_served_model(tmp_path):
    # TFRA draws the values of ids without a row shard by shard.
    predicted = train(tmp_path, lambda: models.functional(devices=["/CPU:0"] * 2), KNOWN_IDS)
    for shards in (1, 3):
        tables.start_over()
        model = models.functional(devices=["/CPU:0"] * shards)
        acp.export.saved_model(model, tmp_path / "run", 3, export_dir=tmp_path / f"out{shards}")
    acp.export.saved_model_from_template(
        tmp_path / "out1", tmp_path / "run", 2, export_dir=tmp_path / "one"
    )
    acp.export.saved_model_from_template(
        tmp_path / "by_us", tmp_path / "run", 2, export_dir=tmp_path / "two"
    )
    with pytest.raises(errors.IncompatibleModelError, match="3 tables. Expected: one, or 2"):
        acp.export.saved_model_from_template(
            tmp_path / "out3", tmp_path / "run", 2, export_dir=tmp_path / "three"
        )
    outs = [tmp_path / name for name in ("out1", "out3", "one", "two")]
    assert served(*outs, ids=KNOWN_IDS) == [[predicted[step]] for step in (3, 3, 2, 2)]


def test_string_keys_are_served(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 100)
    variable = tables.make_variable(keys=tf.string)
    expected = tables.fill(variable, range(50))
    manager = tables.manage(tmp_path / "run", variable)
    manager.save(1)
    manager.close()

    holder = tf.Module()
    holder.variable = tables.make_variable(keys=tf.string)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="keys")])
    def embed(keys):
        return {"rows": holder.variable.lookup(keys)}

    out = tmp_path / "out"
    acp.export.saved_model(holder, tmp_path / "run", export_dir=out, signatures=embed)
    keys = list(expected)
    rows = tf.saved_model.load(str(out)).signatures["serving_default"](keys=tf.constant(keys))
    assert tables.as_dict(tf.constant(keys), rows["rows"]) == expected


# What is refused, and leaves nothing.


def test_other_models_are_refused(tmp_path):
    train(tmp_path)

    def other_dim():
        ids = tf.keras.Input((models.FEATURES,), dtype=tf.int64, name="ids")
        pooled = tf.reduce_sum(models.embedding("emb", dim=8)(ids), axis=1)
        return tf.keras.Model({"ids": ids}, models.dense()(pooled[:, :4]))

    def other_name():
        ids = tf.keras.Input((models.FEATURES,), dtype=tf.int64, name="ids")
        pooled = tf.reduce_sum(models.embedding("users")(ids), axis=1)
        return tf.keras.Model({"ids": ids}, models.dense()(pooled))

    cases = {
        "8 float32. Expected: int64 keys, rows of 4": other_dim,
        "users-parameter. Expected: some of emb-parameter": other_name,
        "saved float32\\[4, 1\\], the model has float32\\[4, 2\\]": lambda: models.functional(
            units=2
        ),
    }
    for number, (message, build) in enumerate(cases.items()):
        tables.start_over()
        model = build()
        with pytest.raises(errors.IncompatibleModelError, match=message):
            acp.export.saved_model(model, tmp_path / "run", export_dir=tmp_path / "out")
        acp.export.saved_model(model, export_dir=tmp_path / f"template{number}")
        with pytest.raises(errors.IncompatibleModelError):
            acp.export.saved_model_from_template(
                tmp_path / f"template{number}", tmp_path / "run", export_dir=tmp_path / "out"
            )
    assert not list(tmp_path.glob("out*"))


def test_damage_and_missing_steps_leave_nothing(tmp_path, capsys):
    train(tmp_path)
    model = models.build()
    with pytest.raises(errors.CheckpointNotFoundError, match="step 7"):
        acp.export.saved_model(model, tmp_path / "run", 7, export_dir=tmp_path / "out")
    for segment in tmp_path.glob("run/segments/*/*.acp"):
        faults.flip(segment, segment.stat().st_size // 2)
    with pytest.raises(errors.CorruptCheckpointError):
        acp.export.saved_model(model, tmp_path / "run", export_dir=tmp_path / "out")
    command = ["export-savedmodel", str(tmp_path / "run"), "--template", str(tmp_path / "by_us")]
    assert main([*command, str(tmp_path / "out")]) == 1
    assert main([*command, "--step", "7", str(tmp_path / "out")]) == 2
    assert not list(tmp_path.glob("out*"))
