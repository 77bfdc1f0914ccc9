# SPDX-License-Identifier: Apache-2.0
"""Acts between the building of a training step and its first run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def before_first_step(
    model: tf.keras.Model, action: Callable[[], Any], *, instead: bool = False
) -> None:
    """Runs `action` once `fit` has built the training step, before the step first runs.

    By then the model, the optimizer's slots and the metrics have all their variables, however
    lazily they are made.

    Args:
        model: a compiled model, whose `train_function` is made.
        action: what to do; the step runs after it.
        instead: whether the first step is left out; its result is that of the metrics as they are.
    """
    train_function = model.train_function

    def first_step(iterator: Any) -> Any:
        _build(model, train_function, iterator)
        model.train_function = train_function
        action()
        return model.get_metrics_result() if instead else train_function(iterator)

    model.train_function = first_step


def build_without_step(model: tf.keras.Model, element_spec: Any) -> None:
    """Builds the training step, runs what `before_first_step` was told to, and no step.

    Args:
        model: the model given to `before_first_step`, whose `fit` had nothing to train.
        element_spec: of the dataset it would have trained on.
    """
    batch = tf.nest.map_structure(_zeros, element_spec)
    no_batches = iter(tf.data.Dataset.from_tensors(batch).take(0))
    with contextlib.suppress(StopIteration, tf.errors.OutOfRangeError):
        model.train_function(no_batches)


def _build(model: tf.keras.Model, train_function: Any, iterator: Any) -> None:
    if hasattr(train_function, "get_concrete_function"):
        train_function.get_concrete_function(iterator)
        return
    # Run eagerly there is nothing to trace: steps on zeros make the variables, and the restore that
    # follows undoes what they did to them. One call may run several steps.
    batch = tf.nest.map_structure(_zeros, iterator.element_spec)
    train_function(iter(tf.data.Dataset.from_tensors(batch).repeat()))


def _zeros(spec: tf.TensorSpec) -> tf.Tensor:
    shape = [1 if size is None else size for size in spec.shape.as_list()]
    return tf.zeros(shape, spec.dtype) if spec.dtype != tf.string else tf.fill(shape, "")
