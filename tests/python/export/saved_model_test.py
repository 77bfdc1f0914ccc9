# SPDX-License-Identifier: Apache-2.0
"""A model exported for serving: TFRA alone loads it, and it predicts what the model predicts."""

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import faults, models, serving, tables


@pytest.fixture
def trained(tmp_path):
    """Makes models that are tracked and have been trained a little."""
    managers = []

    def train(kind="functional", batches=5, **compile_arguments):
        model = models.build(kind, **compile_arguments)
        directory = str(tmp_path / f"run{len(managers)}")
        managers.append(acp.CheckpointManager(directory, model=model))
        models.train(model, models.dataset(batches))
        return model

    yield train
    for manager in managers:
        manager.close()


def ids(batches=6):
    """More ids than the models were trained on: some have no row."""
    return models.samples(batches)[0]["ids"]


def predictions(model):
    """What the live model predicts, as bytes."""
    return tf.function(model)({"ids": tf.constant(ids())}, training=False).numpy().tobytes()


def digests(directory):
    """Name -> bytes of every tensor in the variables of a SavedModel, rows in the order of keys."""
    reader = tf.train.load_checkpoint(str(directory / "variables" / "variables"))
    found = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for name in [name for name in found if name.endswith("-keys")]:
        order = np.argsort(found[name])
        values = name.removesuffix("-keys") + "-values"
        found[name], found[values] = found[name][order], found[values][order]
    return found


def test_every_kind_of_model_is_served_by_tfra_alone(tmp_path, trained):
    expected, calls = [], []
    for kind in models.KINDS:
        model = trained(kind)
        report = acp.export.saved_model(model, export_dir=tmp_path / kind)
        assert not [op for op in serving.ops_of(tmp_path / kind) if "daptcp" in op]
        assert report.rows == sum(len(tables.rows_of(v)) for v in of_tfra(model))
        expected.append(predictions(model))
        calls.append((tmp_path / kind, "serving_default", {"ids": ids()}))
    assert [list(answer.values()) for answer in serving.serve(*calls)] == [[e] for e in expected]


def of_tfra(model):
    """The TFRA variables that hold a model's embeddings."""
    found = {id(layer.params): layer.params for layer in layers_of(model)}
    return list(found.values())


def layers_of(model):
    return [module for module in model.submodules if hasattr(module, "params")]


def test_signatures_keep_names_and_are_traced_for_inference(tmp_path, trained):
    model = trained()

    @tf.function(input_signature=[tf.TensorSpec([None, models.FEATURES], tf.int64, name="users")])
    def score(users):
        return {"score": tf.sigmoid(model({"ids": users}))}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def embed(items):
        return {"vector": model.layers[1](items)}

    users, items = ids(), ids()[:, 0]
    # Traced now, in training mode: it notes the ids for the optimizer.
    expected = [score(tf.constant(users))["score"], embed(tf.constant(items))["vector"]]
    signatures = {"serving_default": score, "embed": embed}
    acp.export.saved_model(model, export_dir=tmp_path / "out", signatures=signatures)
    served = serving.serve(
        (tmp_path / "out", "serving_default", {"users": users}),
        (tmp_path / "out", "embed", {"items": items}),
    )
    assert served == [
        {"score": expected[0].numpy().tobytes()},
        {"vector": expected[1].numpy().tobytes()},
    ]


def test_only_what_is_served_is_exported(tmp_path, trained):
    model = trained()
    acp.export.saved_model(model, export_dir=tmp_path / "out")
    names = {name.split("/.ATTRIBUTES")[0] for name in digests(tmp_path / "out")}
    assert names == {
        "_CHECKPOINTABLE_OBJECT_GRAPH",
        "tables_of_emb-parameter/0",
        "model.Slayer_with_weights-1.Skernel",
        "model.Slayer_with_weights-1.Sbias",
    }


def test_shards_and_lookup_tables_are_exported(tmp_path):
    def build():
        text = tf.keras.Input((models.FEATURES,), dtype=tf.string, name="words")
        words = tf.keras.layers.StringLookup(vocabulary=["a", "b", "c"])(text)
        pooled = tf.reduce_sum(models.embedding("emb", devices=["/CPU:0"] * 2)(words), axis=1)
        return tf.keras.Model({"words": text}, models.dense()(pooled))

    model = models.build(build)
    words = np.array([["a", "b", "c"], ["c", "d", "a"]])
    model.train_on_batch({"words": tf.constant(words)}, tf.constant([[0.0], [1.0]]))
    acp.export.saved_model(model, export_dir=tmp_path / "out")
    (answer,) = serving.serve((tmp_path / "out", "serving_default", {"words": words}))
    expected = tf.function(model)({"words": tf.constant(words)}, training=False)
    assert list(answer.values()) == [expected.numpy().tobytes()]


def test_training_goes_on_as_if_nothing_was_exported(tmp_path, trained):
    batches = list(models.dataset(8))
    model = trained()
    models.train(model, batches[5:])
    undisturbed = models.parts(model)
    model = trained()
    acp.export.saved_model(model, export_dir=tmp_path / "out")
    models.train(model, batches[5:])
    assert models.parts(model) == undisturbed


def test_tracked_model_is_saved_by_keras_too(tmp_path, trained):
    model = trained()
    options = tf.saved_model.SaveOptions(namespace_whitelist=["TFRA"])
    model.save(tmp_path / "out", options=options)
    assert not [op for op in serving.ops_of(tmp_path / "out") if "daptcp" in op]
    (answer,) = serving.serve((tmp_path / "out", "serving_default", {"ids": ids()}))
    assert list(answer.values()) == [predictions(model)]


# What is refused, and leaves nothing.


def test_signature_that_trains_is_refused(tmp_path, trained):
    model = trained()
    variable = model.layers[1].params

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def forget(items):
        variable.remove(items)
        return {"forgotten": tf.size(items)}

    with pytest.raises(errors.InvalidOptionError, match="in signature 'forget'"):
        acp.export.saved_model(model, export_dir=tmp_path / "out", signatures={"forget": forget})
    assert not list(tmp_path.glob("out*"))


def test_function_without_signature_is_refused(tmp_path, trained):
    model = trained()
    for given in (model.call, tf.function(model), 7):
        with pytest.raises(errors.InvalidOptionError, match="input_signature"):
            acp.export.saved_model(model, export_dir=tmp_path / "out", signatures=given)
    assert not list(tmp_path.glob("out*"))


def test_model_that_was_never_called_is_refused(tmp_path):
    with pytest.raises(errors.InvalidOptionError, match="has been called"):
        acp.export.saved_model(models.Subclassed(), export_dir=tmp_path / "out")


def test_directory_with_files_is_refused_and_left_alone(tmp_path, trained):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "theirs").write_bytes(b"theirs")
    with pytest.raises(errors.InvalidOptionError, match="not empty"):
        acp.export.saved_model(trained(), export_dir=tmp_path / "out")
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"theirs"]


def test_full_disk_leaves_nothing(tmp_path, trained):
    model = trained()
    with faults.small_disk(tmp_path / "small") as disk:
        with disk.full(), pytest.raises(errors.StorageError, match="small"):
            acp.export.saved_model(model, export_dir=disk.path / "out")
        assert not list(disk.path.glob("out*"))
