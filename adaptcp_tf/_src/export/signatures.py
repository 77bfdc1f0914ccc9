# SPDX-License-Identifier: Apache-2.0
"""The functions of an exported model, traced for serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors

DEFAULT = "serving_default"


def trace(model: Any, signatures: Any) -> dict[str, Any]:
    """Returns the concrete functions to export; in inference mode only.

    A `tf.function` is traced anew, since what was traced in training notes the ids it looks up.

    Args:
        model: the model.
        signatures: a `tf.function` with an input signature, a concrete function, or a dict of them by
            name; None makes one of the call of a Keras model.

    Raises:
        InvalidOptionError: it is none of these, or the model was never called.
    """
    if signatures is None:
        return {DEFAULT: _default(model)}
    if not isinstance(signatures, Mapping):
        signatures = {DEFAULT: signatures}
    return {name: _traced(name, function) for name, function in signatures.items()}


def _traced(name: str, function: Any) -> Any:
    if isinstance(function, tf.types.experimental.ConcreteFunction):
        return function
    python_function = getattr(function, "python_function", None)
    input_signature = getattr(function, "input_signature", None)
    if python_function is None or input_signature is None:
        raise errors.InvalidOptionError(
            f"Invalid value for signatures, {name!r}. Received: {function!r}. Expected: a "
            "tf.function with an input_signature."
        )
    traced = tf.function(python_function, input_signature=input_signature)
    return traced.get_concrete_function()


def _default(model: Any) -> Any:
    """The call of a Keras model, with the names of its inputs and outputs."""
    specs = None
    if isinstance(model, tf.keras.Model):
        specs = model.save_spec()
    if specs is None:
        raise errors.InvalidOptionError(
            "There are no signatures to export. Received: signatures=None and "
            f"{type(model).__name__}, which is not a Keras model that has been called. Expected: "
            "signatures, for example a tf.function with an input_signature, or a built Keras model."
        )
    (inputs, *others), keywords = specs
    leaves = tf.nest.flatten(inputs, expand_composites=True)
    if others or keywords or not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
        raise errors.InvalidOptionError(
            f"The call of the model cannot be made a signature. Received: arguments {specs}. "
            "Expected: one argument of tensors. Give signatures of your own."
        )

    def call(*arguments: tf.Tensor) -> dict[str, tf.Tensor]:
        packed = tf.nest.pack_sequence_as(inputs, arguments, expand_composites=True)
        outputs = model(packed, training=False)
        if isinstance(outputs, Mapping):
            return dict(outputs)
        flat = tf.nest.flatten(outputs)
        names = model.output_names or [f"output_{i}" for i in range(1, len(flat) + 1)]
        return dict(zip(names, flat))

    return tf.function(call, autograph=False).get_concrete_function(*_named(leaves))


def _named(specs: list[tf.TensorSpec]) -> list[tf.TensorSpec]:
    """The same specs, each with a name of its own."""
    names = [spec.name or f"input_{i}" for i, spec in enumerate(specs, start=1)]
    if len(set(names)) < len(names):
        names = [f"{name}_{i}" for i, name in enumerate(names)]
    return [tf.TensorSpec(spec.shape, spec.dtype, name) for spec, name in zip(specs, names)]
