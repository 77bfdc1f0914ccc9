# SPDX-License-Identifier: Apache-2.0
"""Recommender models on TFRA dynamic embeddings, seeded so that two builds train to the same bits."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from .criteo_stream import NUM_CATEGORICAL, NUM_DENSE


def adam(learning_rate: float = 0.001) -> tf.keras.optimizers.Optimizer:
    """Adam that also trains dynamic embeddings (two slot tables per embedding table)."""
    return de.DynamicEmbeddingOptimizer(tf.keras.optimizers.Adam(learning_rate))


def _embedding(dim: int, name: str, seed: int, init_capacity: int = 0) -> de.keras.layers.Embedding:
    # An unseeded initializer picks a seed per process: rows born after a resume would differ.
    initializer = tf.keras.initializers.RandomNormal(stddev=0.05, seed=seed)
    return de.keras.layers.Embedding(
        dim, initializer=initializer, name=name, init_capacity=init_capacity
    )


def _dense(units: int, seed: int, activation: str | None = "relu") -> tf.keras.layers.Dense:
    kernel = tf.keras.initializers.GlorotUniform(seed=seed)
    return tf.keras.layers.Dense(units, activation=activation, kernel_initializer=kernel)


def movielens_model(dim: int = 16, name: str = "movielens", seed: int = 1) -> tf.keras.Model:
    """A compiled two-tower model that predicts a rating; inputs `user` and `item`, `[batch]` int64.

    It has one table of users and one of items.

    Args:
      dim: length of the embedding vectors.
      name: TFRA knows tables by name, so two models in one process need two names.
      seed: of all initial values.
    """
    user = tf.keras.Input((), dtype=tf.int64, name="user")
    item = tf.keras.Input((), dtype=tf.int64, name="item")
    user_vector = _dense(dim, seed + 1)(_embedding(dim, f"{name}_user", seed + 2)(user))
    item_vector = _dense(dim, seed + 3)(_embedding(dim, f"{name}_item", seed + 4)(item))
    match = tf.keras.layers.Dot(axes=1)([user_vector, item_vector])
    joined = tf.keras.layers.Concatenate()([user_vector, item_vector, match])
    rating = _dense(1, seed + 5, activation=None)(joined)
    model = tf.keras.Model({"user": user, "item": item}, rating, name=name)
    metrics = [tf.keras.metrics.RootMeanSquaredError(name="rmse")]
    model.compile(adam(0.005), loss=tf.keras.losses.MeanSquaredError(), metrics=metrics)
    return model


class CriteoModel(tf.keras.Model):
    """DeepFM-like click model: embedding tables, pair interactions and an MLP.

    Args:
      dim: length of the embedding vectors.
      name: TFRA knows tables by name, so two models in one process need two names.
      seed: of all initial values.
      num_tables: embedding tables; number t holds feature t and every `num_tables`th from there.
      init_capacity: rows that each table has room for from the start; 0 takes TFRA's default.
    """

    def __init__(
        self,
        dim: int = 16,
        name: str = "criteo",
        seed: int = 1,
        num_tables: int = 1,
        init_capacity: int = 0,
    ):
        super().__init__(name=name)
        self.embeddings = [
            _embedding(dim, f"{name}_embedding{t or ''}", seed, init_capacity)
            for t in range(num_tables)
        ]
        self.bottom = _dense(dim, seed + 1)
        self.top = [_dense(256, seed + 2), _dense(128, seed + 3), _dense(1, seed + 4, "sigmoid")]

    def ids_by_table(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The ids that a batch looks up in each embedding, by the layer's name."""
        num_tables = len(self.embeddings)
        return {
            layer.name: inputs["ids"][:, t::num_tables] for t, layer in enumerate(self.embeddings)
        }

    def call(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """Click probability `[batch, 1]` of `ids` `[batch, 26]` int64 and `dense` `[batch, 13]`."""
        ids = self.ids_by_table(inputs)
        vectors = tf.concat([layer(ids[layer.name]) for layer in self.embeddings], axis=1)
        dense = self.bottom(inputs["dense"])
        total = tf.reduce_sum(vectors, axis=1) + dense
        squares = tf.reduce_sum(tf.square(vectors), axis=1) + tf.square(dense)
        pairs = 0.5 * (tf.square(total) - squares)  # sum of products over all pairs of features
        flat = tf.reshape(vectors, [-1, NUM_CATEGORICAL * vectors.shape[-1]])
        hidden = tf.concat([flat, dense, pairs], axis=1)
        for layer in self.top:
            hidden = layer(hidden)
        return hidden


def criteo_model(
    dim: int = 16,
    name: str = "criteo",
    seed: int = 1,
    num_tables: int = 1,
    init_capacity: int = 0,
) -> CriteoModel:
    """A compiled `CriteoModel`. Its slot tables appear with its first training step."""
    model = CriteoModel(dim, name, seed, num_tables, init_capacity)
    metrics = [tf.keras.metrics.AUC(num_thresholds=100, name="auc")]
    model.compile(adam(), loss=tf.keras.losses.BinaryCrossentropy(), metrics=metrics)
    return model


def create_slots(model: CriteoModel) -> None:
    """Builds a model and its optimizer ahead of the first step, so that slot tables can be filled."""
    model({"ids": tf.zeros([0, NUM_CATEGORICAL], tf.int64), "dense": tf.zeros([0, NUM_DENSE])})
    model.optimizer.build(model.trainable_variables)
