# SPDX-License-Identifier: Apache-2.0
"""Prefetch-triggered Save-on-Update: rows are saved when the input pipeline sees their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.tables import PrefetchTargets


def prefetch(
    dataset: tf.data.Dataset,
    saver: Any,
    ids: Callable[..., Any],
    buffer_size: int = 2,
) -> tf.data.Dataset:
    """Prefetches batches, and has the rows that they will update saved on the way.

    While a checkpoint is being saved, the thread that prepares a batch saves the rows of its ids which
    the checkpoint still needs. The training step then finds them saved. Elements, their order and
    their number are those of `dataset.prefetch(buffer_size)`, and so is what is trained.

    Example:
        >>> ds = acp.data.prefetch(ds, cb, ids=lambda x, y: {"emb": x["ids"]})
        >>> model.fit(cb.resume(ds), epochs=3, callbacks=[cb])

    Args:
        dataset: batches.
        saver: the `AdaptiveCheckpoint` callback or `CheckpointManager` that checkpoints the model. The
            model need not have its variables yet.
        ids: called like a function for `dataset.map`; returns a dict from the name of a TFRA variable,
            or of the TFRA layer that holds it, to the ids looked up there: a Tensor of any shape, a
            RaggedTensor or a SparseTensor, of the variable's key dtype. The ids alone will do when the
            model has one TFRA variable.
        buffer_size: how many batches are prepared ahead.

    Returns:
        The dataset to train on.

    Raises:
        InvalidOptionError: an argument is not of the right kind, or the model has no such variable, or
            one with other keys. Of a model that has no variables yet this becomes known when `fit`
            begins, or at the first save at the latest, which then raises it.
    """
    targets = getattr(saver, "prefetch_targets", None)
    if not isinstance(targets, PrefetchTargets):
        raise errors.InvalidOptionError(
            f"Invalid value for saver. Received: {saver!r} of type {type(saver).__name__}. "
            "Expected: an AdaptiveCheckpoint callback or a CheckpointManager."
        )
    if isinstance(buffer_size, bool) or not isinstance(buffer_size, int) or buffer_size < 1:
        raise errors.InvalidOptionError(
            f"Invalid value for buffer_size. Received: {buffer_size!r}. Expected: a positive number "
            "of batches."
        )
    if not tf.executing_eagerly():
        raise errors.InvalidOptionError(
            "acp.data.prefetch was called while a graph is built. Expected: a call that executes "
            "eagerly."
        )
    # As `map` sees it: a tuple's components are arguments, anything else is one argument.
    is_tuple = type(dataset.element_spec) is tuple

    def save_and_pass(*components: Any) -> Any:
        saved = [
            # The batches in the buffer, and the one that is being trained on.
            ops.adaptcp_save_before_update(target, keys, window=buffer_size + 1)
            for target, keys in _targets_and_keys(targets, ids(*components))
        ]
        with tf.control_dependencies(saved):
            passed = tf.nest.map_structure(_identity, components, expand_composites=True)
        return passed if is_tuple else passed[0]

    # Unconverted, so that our errors reach the caller as they are. Not in parallel, and so in order.
    unconverted = tf.autograph.experimental.do_not_convert(save_and_pass)
    return dataset.map(unconverted).prefetch(buffer_size)


def _identity(component: Any) -> Any:
    return tf.identity(component) if tf.is_tensor(component) else component


def _targets_and_keys(targets: PrefetchTargets, ids: Any) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    named = ids if isinstance(ids, dict) else {None: ids}
    for name, values in named.items():
        if not (name is None or isinstance(name, str)) or isinstance(values, (dict, list, tuple)):
            raise errors.InvalidOptionError(
                f"Invalid result of ids. Received: {ids!r}. Expected: a dict from names of TFRA "
                "variables to ids, or the ids for the only variable."
            )
        keys = _keys(values)
        yield targets.handle(name, keys.dtype), keys


def _keys(values: Any) -> tf.Tensor:
    if isinstance(values, tf.RaggedTensor):
        return values.flat_values
    if isinstance(values, tf.SparseTensor):
        return values.values
    return tf.convert_to_tensor(values)
