# SPDX-License-Identifier: Apache-2.0
"""A small click model as a TF1 graph with tracked tables, and sessions that train it."""

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp
from adaptcp_tf._src.manifest import Tiers
from tests.support import tables

BATCH = 8
FEATURES = 3
_BATCHES = 40
DIM = 4


def variable(name="emb", shards=1, seed=1, **arguments):
    """A tracked TFRA variable whose new rows are the same in every build."""
    return de.get_variable(
        name,
        dim=DIM,
        devices=["/CPU:0"] * shards,
        initializer=tf.keras.initializers.RandomNormal(seed=seed),
        kv_creator=acp.TrackedTableCreator(),
        **arguments,
    )


def predict(ids, names=("emb",), shards=1, training=True):
    """The model's output [batch, 1] of ids [batch, features], and the trainable views of its rows."""
    pooled, views = [], []
    for seed, name in enumerate(names):
        rows, view = de.embedding_lookup_unique(
            variable(name, shards, seed), ids, name=name, return_trainable=True
        )
        pooled.append(tf.reduce_sum(rows, axis=1))
        views.append(view)
    features = tf.concat(pooled, axis=1)
    kernel = tf.compat.v1.get_variable(
        "kernel", [features.shape[1], 1], initializer=tf.keras.initializers.HeNormal(seed=9)
    )
    return tf.matmul(features, kernel), ([*views, kernel] if training else [])


def model_fn(features, labels, mode, params):
    """For Estimators."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    output, trained = predict(features["ids"], params.get("names", ("emb",)), training=training)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"output": output})
    loss = tf.reduce_mean((output - labels) ** 2)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op(loss, trained) if training else None
    )


def train_op(loss, trained):
    """One step of Adam."""
    optimizer = de.DynamicEmbeddingOptimizer(tf.compat.v1.train.AdamOptimizer(0.05))
    step = tf.compat.v1.train.get_or_create_global_step()
    return optimizer.minimize(loss, global_step=step, var_list=trained)


def samples(batches, seed=0):
    """Ids and labels; new ids keep coming and some come again and again."""
    rng = np.random.default_rng(seed)
    ids = rng.zipf(1.4, (batches * BATCH, FEATURES)) % 1000
    return ids.astype(np.int64), rng.standard_normal((batches * BATCH, 1)).astype(np.float32)


def dataset(batches, seed=0):
    """The same for an Estimator."""
    ids, labels = samples(batches, seed)
    return tf.data.Dataset.from_tensor_slices(({"ids": ids}, labels)).batch(BATCH)


def make_hook(directory, **arguments):
    """A hook that saves every five steps and keeps all checkpoints, unless told otherwise."""
    arguments = {"save_steps": 5, "when_busy": "wait", "max_to_keep": None, **arguments}
    return acp.estimator.AdaptiveCheckpointHook(str(directory), **arguments)


def steps_of(directory):
    """The steps of our checkpoints."""
    return Tiers(str(directory)).all_steps()


def listed_in(directory):
    """The steps that TensorFlow's list names."""
    state = tf.train.get_checkpoint_state(str(directory))
    return [int(path.rsplit("-", 1)[1]) for path in state.all_model_checkpoint_paths]


def is_free(directory):
    """Whether nobody holds the directory any more."""
    acp.CheckpointManager(str(directory), variables=[tables.make_variable()]).close()
    return True


class Notes(tf.compat.v1.train.CheckpointSaverListener):
    """The steps that it was told are saved."""

    def __init__(self):
        self.steps = []

    def after_save(self, session, global_step_value):
        self.steps.append(global_step_value)


class Training:
    """A graph with the model; every session that trains it is one that a process might have had.

    Args:
        names: of the TFRA variables.
        shards: of each of them.
    """

    def __init__(self, names=("emb",), shards=1):
        self.graph = tf.Graph()
        self._samples = samples(_BATCHES)
        with self.graph.as_default():
            self._ids = tf.compat.v1.placeholder(tf.int64, [None, FEATURES])
            self._labels = tf.compat.v1.placeholder(tf.float32, [None, 1])
            output, trained = predict(self._ids, names, shards)
            loss = tf.reduce_mean((output - self._labels) ** 2)
            self._train = train_op(loss, trained)
            self._step = tf.compat.v1.train.get_global_step()
            self._tables = {v.name: v.export() for v in _all_variables(trained)}
            self.dense = {
                v.op.name: v
                for v in tf.compat.v1.global_variables()
                if not isinstance(v, de.TrainableWrapper)
            }

    def run(self, hook, steps, *, checkpoint_dir=None, until=None, **arguments):
        """Trains up to a global step, beginning where the hook has restored; returns `contents`.

        Args:
            hook: the hook, or None.
            steps: the global step at which to end.
            checkpoint_dir: as of MonitoredTrainingSession.
            until: called after every step with the step and the session.
            arguments: of MonitoredTrainingSession.
        """
        arguments = {"save_checkpoint_secs": None, "save_summaries_steps": None, **arguments}
        hooks = [] if hook is None else [hook]
        with (
            self.graph.as_default(),
            tf.compat.v1.train.MonitoredTrainingSession(
                hooks=hooks, checkpoint_dir=checkpoint_dir, **arguments
            ) as session,
        ):
            step = self._step_of(session)
            while step < steps:
                step = self.step(session)
                if until is not None:
                    until(step, session)
            return session.run_step_fn(lambda step_context: self.contents(step_context.session))

    def step(self, session):
        """Trains on the batch of the session's global step; returns the step after it."""
        step = self._step_of(session)
        part = slice(step * BATCH, (step + 1) * BATCH)
        feeds = {self._ids: self._samples[0][part], self._labels: self._samples[1][part]}
        session.run(self._train, feeds)
        return self._step_of(session)

    def _step_of(self, session):
        return int(session.run_step_fn(lambda step_context: step_context.session.run(self._step)))

    def contents(self, session):
        """Table or variable -> its content; equal means equal bit for bit."""
        found = {}
        for name, (keys, rows) in session.run(self._tables).items():
            found[name] = dict(zip(keys.tolist(), [row.tobytes() for row in rows]))
            assert len(found[name]) == len(keys), "a key is in the tables twice"
        for name, value in session.run(self.dense).items():
            found[name] = value.tobytes()
        return found


def _all_variables(trained):
    for view in trained:
        if isinstance(view, de.TrainableWrapper):
            yield view.params
            slots = view._optimizer_vars
            yield from getattr(slots, "value", slots)
