# SPDX-License-Identifier: Apache-2.0
"""Eager execution where TensorFlow would build a graph: in hooks of TF1 sessions, and on our threads."""

from __future__ import annotations

import contextlib

from tensorflow.python.eager import context


def eagerly() -> contextlib.AbstractContextManager[None]:
    """Inside, ops run at once, though a TF1 graph be the default or eager execution turned off.

    Example:
        >>> with tf.Graph().as_default(), eagerly():
        ...     tf.constant(1).numpy()
        1
    """
    return context.eager_mode()
