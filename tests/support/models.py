# SPDX-License-Identifier: Apache-2.0
"""Small Keras models on TFRA embeddings and their input, seeded so that every build is the same."""

import sys

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from tests.support import processes, tables

sys.path.append(str(processes.ROOT / "benchmarks"))
from workloads import digest

BATCH = 8
FEATURES = 3


def embedding(name, dim=4, seed=1, **arguments):
    """A layer whose new rows are the same in every build."""
    initializer = tf.keras.initializers.RandomNormal(seed=seed)
    return de.keras.layers.Embedding(dim, initializer=initializer, name=name, **arguments)


def dense(units=1, seed=2):
    return tf.keras.layers.Dense(units, kernel_initializer=tf.keras.initializers.HeNormal(seed))


class Subclassed(tf.keras.Model):
    """Attributes, no functional graph; built by its first call."""

    def __init__(self):
        super().__init__()
        self.emb = embedding("emb")
        self.out = dense()

    def call(self, inputs):
        return self.out(tf.reduce_sum(self.emb(inputs["ids"]), axis=1))


class Tower(tf.keras.layers.Layer):
    """An embedding inside a layer."""

    def __init__(self, name):
        super().__init__()
        self.emb = embedding(f"{name}_emb")

    def call(self, ids):
        return tf.reduce_sum(self.emb(ids), axis=1)


class Nested(tf.keras.Model):
    """Embeddings in layers in a list, in a model in a model."""

    def __init__(self):
        super().__init__()
        self.towers = [Tower("left"), Tower("right")]
        self.inner = {"head": tf.keras.Sequential([dense(4, seed=3), dense()])}

    def call(self, inputs):
        both = [tower(inputs["ids"]) for tower in self.towers]
        return self.inner["head"](tf.concat(both, axis=1))


class Lazy(tf.keras.Model):
    """Makes everything when it is called first, as some user code does."""

    def build(self, shapes):
        self.emb = embedding("emb")
        self.out = dense()
        self.built = True

    def call(self, inputs):
        return self.out(tf.reduce_sum(self.emb(inputs["ids"]), axis=1))


def functional(units=1, **arguments):
    ids = tf.keras.Input((FEATURES,), dtype=tf.int64, name="ids")
    pooled = tf.reduce_sum(embedding("emb", **arguments)(ids), axis=1)
    return tf.keras.Model({"ids": ids}, dense(units)(pooled))


class Shared(tf.keras.Model):
    """One embedding that belongs to two layers; TFRA allows one lookup of it a step."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Tower("one"), Tower("other")
        self.second.emb = self.first.emb
        self.heads = [dense(seed=3), dense(seed=4)]

    def call(self, inputs):
        vectors = self.first(inputs["ids"])
        return self.heads[0](vectors) + self.heads[1](vectors**2)


KINDS = {
    "functional": functional,
    "subclassed": Subclassed,
    "nested": Nested,
    "shared": Shared,
    "lazy": Lazy,
}

_legacy = tf.keras.optimizers.legacy
# The new Adagrad and Ftrl are not among them: TFRA 0.7.2 fails to make their slots by itself.
OPTIMIZERS = {
    "adam": lambda: tf.keras.optimizers.Adam(0.05),
    "rmsprop": lambda: tf.keras.optimizers.RMSprop(0.05, momentum=0.5),
    "sgd": lambda: tf.keras.optimizers.SGD(0.05),
    "sgd_momentum": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),
    "legacy_adam": lambda: _legacy.Adam(0.05),
    "legacy_adagrad": lambda: _legacy.Adagrad(0.05),
    "legacy_ftrl": lambda: _legacy.Ftrl(0.05),
    "legacy_sgd_momentum": lambda: _legacy.SGD(0.05, momentum=0.9),
}


def build(kind="functional", optimizer="adam", **compile_arguments):
    """A compiled model, as a new process would build it."""
    tables.start_over()
    model = KINDS[kind]() if isinstance(kind, str) else kind()
    model.compile(
        de.DynamicEmbeddingOptimizer(OPTIMIZERS[optimizer]()),
        loss="mse",
        metrics=[tf.keras.metrics.MeanAbsoluteError(name="mae")],
        **compile_arguments,
    )
    return model


def samples(batches, seed=0):
    """Inputs and labels; new ids keep coming and some come again and again."""
    rng = np.random.default_rng(seed)
    ids = rng.zipf(1.4, (batches * BATCH, FEATURES)) % 1000
    labels = rng.standard_normal((batches * BATCH, 1)).astype(np.float32)
    return {"ids": ids.astype(np.int64)}, labels


def dataset(batches, seed=0):
    """The same as a dataset of batches."""
    return tf.data.Dataset.from_tensor_slices(samples(batches, seed)).batch(BATCH)


def train(model, batches):
    """Trains on the batches of a dataset, one step each; returns the losses."""
    return [float(model.train_on_batch(*batch)[0]) for batch in batches]


def parts(model):
    """Name -> digest for every table, dense variable, counter and metric of a trained model."""
    return digest.digest(model).parts
