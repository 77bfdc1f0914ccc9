# SPDX-License-Identifier: Apache-2.0
"""Makes lazily created variables exist before a restore fills them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def is_built(model: Any) -> bool:
    """Whether the model has made its variables; other trackables always have."""
    return not isinstance(model, tf.keras.Model) or model.built


def has_all_variables(model: Any, optimizer: Any) -> bool:
    """Whether no variable can come any more; False when nobody knows."""
    if model is None:
        return optimizer is None
    return isinstance(model, tf.keras.Model) and model.built


def build_optimizer(model: Any, optimizer: Any) -> None:
    """Makes the optimizer's slots for the trainable variables of a built model."""
    optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
    trainable = getattr(model, "trainable_variables", None)
    if optimizer is None or not trainable:
        return
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(trainable)
    elif isinstance(optimizer, tf.keras.optimizers.Optimizer):
        optimizer.build(trainable)


def defer_until_built(model: tf.keras.Model, action: Callable[[], Any]) -> None:
    """Runs `action` when the model's first call has made its variables, before its result counts.

    The first call computes twice: once to make the variables, whose result is dropped, and again
    after `action`. Several actions run in the order in which they were deferred.
    """
    # Within a tf.function that is traced, AutoGraph would rewrite all that the action calls.
    action = tf.autograph.experimental.do_not_convert(action)
    original = model.call
    pending = getattr(original, "adaptcp_pending", None)
    if pending is not None:
        pending.append(action)
        return
    pending = [action]

    def first_call(*args: Any, **kwargs: Any) -> Any:
        original(*args, **kwargs)
        model.call = original
        model.built = True
        # Runs now, even when a tf.function that calls the model is being traced.
        with tf.init_scope():
            for deferred in pending:
                deferred()
        return original(*args, **kwargs)

    first_call.adaptcp_pending = pending
    model.call = first_call
