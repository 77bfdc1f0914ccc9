# SPDX-License-Identifier: Apache-2.0
"""Trains a click model with tf.estimator on a Criteo log; may be killed and started again.

Example:
  python examples/estimator_criteo.py --directory /tmp/criteo --epochs 3 --save_freq 5
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import command_line
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from workloads import criteo_file, digest

DIM = 16


def click_logits(features: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Variable]:
    """Logits [batch, 1] of ids [batch, 26] and dense [batch, 13], and the rows that they depend on."""
    ids = features["ids"]
    table = de.get_variable(
        "embedding",
        dim=DIM,
        # Seeded and stateless: rows born after a restart are those of an uninterrupted run.
        initializer=tf.keras.initializers.RandomNormal(stddev=0.05, seed=1),
        kv_creator=acp.TrackedTableCreator(),
    )
    # Unique: an id that is in the batch twice is updated once, with the sum of its gradients.
    vectors, trained_rows = de.embedding_lookup_unique(
        table, ids, name="lookup", return_trainable=True
    )
    hidden = tf.concat([tf.reshape(vectors, [-1, ids.shape[1] * DIM]), features["dense"]], axis=1)
    for layer, units in enumerate((128, 64)):
        hidden = tf.nn.relu(dense_layer(f"hidden{layer}", hidden, units))
    return dense_layer("logit", hidden, 1), trained_rows


def dense_layer(name: str, inputs: tf.Tensor, units: int) -> tf.Tensor:
    """Inputs times a kernel, plus a bias."""
    with tf.compat.v1.variable_scope(name):
        kernel = tf.compat.v1.get_variable(
            "kernel",
            [inputs.shape[1], units],
            initializer=tf.keras.initializers.GlorotUniform(seed=units),
        )
        bias = tf.compat.v1.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def model_fn(
    features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str
) -> tf.estimator.EstimatorSpec:
    """The click model for an Estimator."""
    logits, trained_rows = click_logits(features)
    clicks = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"click": clicks})
    loss = click_loss(logits, labels)
    if mode == tf.estimator.ModeKeys.EVAL:
        auc = tf.compat.v1.metrics.auc(labels, clicks)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"auc": auc})
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=adam_step(loss, trained_rows))


def click_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The mean over a batch."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def adam_step(loss: tf.Tensor, trained_rows: tf.Variable) -> tf.Operation:
    """One step for the rows of the batch and all dense variables."""
    optimizer = de.DynamicEmbeddingOptimizer(tf.compat.v1.train.AdamOptimizer(0.001))
    dense = [v for v in tf.compat.v1.trainable_variables() if v is not trained_rows]
    return optimizer.minimize(
        loss,
        global_step=tf.compat.v1.train.get_or_create_global_step(),
        var_list=[trained_rows, *dense],
    )


def parser(description: str) -> argparse.ArgumentParser:
    """A parser of the arguments of trainings on a Criteo log."""
    arguments = command_line.parser(description, batch=128)
    arguments.add_argument("--data", help="a Criteo log; default: the sample in ADAPTCP_DATA")
    return arguments


def batched(samples: criteo_file.Batch, batch: int) -> tf.data.Dataset:
    """The batches of one epoch."""
    inputs = {"ids": samples.ids, "dense": samples.dense}
    return tf.data.Dataset.from_tensor_slices((inputs, samples.labels)).batch(batch)


def main() -> None:
    """Trains, continuing where a killed run left off, and evaluates."""
    args = parser(__doc__).parse_args()
    samples = criteo_file.read(args.data or criteo_file.locate(), args.samples)
    steps = args.epochs * -(-len(samples.labels) // args.batch)

    def batches() -> tf.data.Dataset:
        return batched(samples, args.batch)

    hooks = [digest.SessionDigest(args.digest_out)] if args.digest_out else []
    config = tf.estimator.RunConfig(save_checkpoints_secs=None, log_step_count_steps=20)
    if args.strategy == "none":
        estimator = tf.estimator.Estimator(model_fn, config=config)
        estimator.train(lambda: batches().repeat(args.epochs), max_steps=steps, hooks=hooks)
        return

    # TensorFlow's own checkpoints, of the same steps, with all but the tables.
    model_dir = f"{args.directory}/estimator"
    estimator = tf.estimator.Estimator(model_fn, model_dir=model_dir, config=config)
    hook = acp.estimator.AdaptiveCheckpointHook(
        args.directory,
        save_steps=args.save_freq,
        strategy=args.strategy,
        when_busy=args.when_busy,
        max_to_keep=3,
    )
    estimator.train(
        lambda: hook.resume(batches().repeat(args.epochs)), max_steps=steps, hooks=[hook, *hooks]
    )
    result = estimator.evaluate(batches, hooks=[acp.estimator.RestoreHook(args.directory)])
    print(f"step {result['global_step']}: loss {result['loss']:.4f}, AUC {result['auc']:.3f}")


if __name__ == "__main__":
    main()
