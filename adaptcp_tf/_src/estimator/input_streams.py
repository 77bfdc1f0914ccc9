# SPDX-License-Identifier: Apache-2.0
"""Where in its input a TF1 training is: counted from the step at which it began with that input."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import Manifest

# Under these names a checkpoint tells which input was trained on, and from which step.
_NAME = "input_stream"
_BEGAN_AT = "input_stream_began_at"


class InputStream:
    """The input of a session, where one batch is one step."""

    def __init__(self) -> None:
        # None while nobody said what the input is.
        self._name: str | None = None
        self._began_at: int | None = None
        # The step of the checkpoint that the input was made for; None if there was none.
        self._made_for: int | None = None

    def resumed(
        self, dataset: tf.data.Dataset, name: str, manifest: Manifest | None
    ) -> tf.data.Dataset:
        """Returns a dataset without what was trained on, and makes it the input.

        Args:
            dataset: all batches of the stream.
            name: of the stream.
            manifest: the checkpoint that the session will start from, or None.
        """
        self._name = name
        self._began_at = None
        self._made_for = None if manifest is None else manifest.step
        counters = {} if manifest is None else manifest.counters
        if counters.get(_NAME) != name:
            return dataset
        self._began_at = counters[_BEGAN_AT]
        return dataset.skip(manifest.step - self._began_at)

    def begin_at(self, step: int, *, restored: bool) -> None:
        """Says at which step the session starts, which is that of the stream if it is a new one.

        Args:
            step: the global step.
            restored: whether it is that of a checkpoint.

        Raises:
            InvalidOptionError: the input was made for a session that starts at another step.
        """
        if self._name is not None and step != self._made_for:
            if restored or self._made_for is not None:
                raise errors.InvalidOptionError(
                    f"The input does not begin where the session does. Received: a session that "
                    f"starts at step {step}, and input {self._name!r} for the one that starts at "
                    f"step {self._made_for or 0}. Expected: the same step. Call hook.resume() again "
                    "for each training, after the one before has ended."
                )
            self._made_for = step
        if self._began_at is None:
            self._began_at = step

    def counters(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        if self._name is None:
            return {}
        return {_NAME: self._name, _BEGAN_AT: self._began_at}
