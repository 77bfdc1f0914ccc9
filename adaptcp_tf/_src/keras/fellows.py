# SPDX-License-Identifier: Apache-2.0
"""The other callbacks of a `fit`, and those that cannot work beside ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tensorflow as tf

from adaptcp_tf import errors


def fellow_callbacks(
    callback: tf.keras.callbacks.Callback,
) -> Sequence[tf.keras.callbacks.Callback]:
    """Returns the other callbacks of the `fit` that is calling `callback` now.

    Keras tells a callback its model and not its fellows, but the list that calls it has them all.

    Args:
        callback: the one whose method is running.

    Returns:
        The others, in order; none when something else than Keras calls it.
    """
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, tf.keras.callbacks.CallbackList):
            return [fellow for fellow in caller.callbacks if fellow is not callback]
        frame = frame.f_back
    return []


def check_fellows(fellows: Sequence[tf.keras.callbacks.Callback]) -> None:
    """Raises when a callback would undo, or do halfway, what AdaptiveCheckpoint does.

    Raises:
        InvalidOptionError: one of them would.
    """
    for fellow in fellows:
        if isinstance(fellow, tf.keras.callbacks.BackupAndRestore):
            raise errors.InvalidOptionError(
                "BackupAndRestore cannot be used beside AdaptiveCheckpoint. Received: both in the "
                "callbacks of fit, each of which wants to say where the training continues. "
                "Expected: one of them. Leave BackupAndRestore out: AdaptiveCheckpoint restores the "
                "model and the place in the input, and embedding rows and slots too."
            )
        if getattr(fellow, "restore_best_weights", False):
            raise errors.InvalidOptionError(
                f"{type(fellow).__name__}(restore_best_weights=True) cannot be used beside "
                "AdaptiveCheckpoint. It would put back the dense weights of the best epoch and leave "
                "the embedding rows of the last one. Expected: restore_best_weights=False. To go "
                "back to the best epoch, save with save_freq='epoch' and max_to_keep=None, and call "
                "manager.restore(step) of its checkpoint when fit has ended."
            )
