# SPDX-License-Identifier: Apache-2.0
"""Trainings with `fit` that are interrupted and resumed, as a script started again would."""

import contextlib
import dataclasses
from typing import Any

import tensorflow as tf

import adaptcp_tf as acp
from tests.support import models

BATCHES = 7


class InterruptedByTestError(Exception):
    """What stops a training in the middle."""


class StopAfter(tf.keras.callbacks.Callback):
    """Interrupts `fit` after so many batches of its own."""

    def __init__(self, batches):
        super().__init__()
        self._left = batches

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if self._left == 0:
            raise InterruptedByTestError


@dataclasses.dataclass
class Outcome:
    """What a training ended with: digests of all its state, and the logs of each epoch it finished."""

    parts: dict[str, str]
    logs: list[dict[str, float]]
    callback: Any = None


def plain(dataset, build=models.build, epochs=3, **fit):
    """Trains without checkpoints."""
    model = build()
    history = model.fit(dataset(), epochs=epochs, verbose=0, **fit)
    return Outcome(models.parts(model), _logs(history))


def resumed(callback, dataset):
    """What most trainings give to `fit`."""
    return callback.resume(dataset)


def make_callback(directory, **options):
    """Our callback, which saves often and skips nothing."""
    options = {"save_freq": 3, "when_busy": "wait", **options}
    return acp.keras.AdaptiveCheckpoint(str(directory), **options)


def start(
    directory,
    dataset,
    build=models.build,
    *,
    stop_after=None,
    epochs=3,
    fit=None,
    feed=resumed,
    beside=(),
    ours_first=True,
    **options,
):
    """Runs the training script once: from the newest checkpoint to the end or to `stop_after`.

    Args:
        directory: of the checkpoints.
        dataset: makes the dataset.
        build: makes the model.
        stop_after: batches after which this run is interrupted; None goes to the end.
        epochs: of the whole training.
        fit: more arguments of `fit`.
        feed: makes what `fit` is given, from the callback and the dataset.
        beside: other callbacks.
        ours_first: whether they come after ours.
        **options: of the callback.
    """
    model = build()
    callback = make_callback(directory, **options)
    callbacks = [callback, *beside] if ours_first else [*beside, callback]
    if stop_after is not None:
        callbacks.append(StopAfter(stop_after))
    outcome = Outcome({}, [], callback)
    with contextlib.suppress(InterruptedByTestError):
        history = model.fit(
            feed(callback, dataset()),
            epochs=epochs,
            callbacks=callbacks,
            verbose=0,
            **(fit or {}),
        )
        outcome.logs = _logs(history)
        callback.wait()
    outcome.parts = models.parts(model)
    # The end of a process would do this.
    callback.close()
    return outcome


def _logs(history):
    names = list(history.history)
    return [dict(zip(names, values)) for values in zip(*history.history.values())]
