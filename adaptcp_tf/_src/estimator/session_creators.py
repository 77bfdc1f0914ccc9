# SPDX-License-Identifier: Apache-2.0
"""Tells hooks who makes their session: with that, where TensorFlow keeps its own checkpoints."""

from __future__ import annotations

import functools
from typing import Any

from tensorflow.python.training import monitored_session

_Session = monitored_session._MonitoredSession
_init_session = _Session.__init__


class KnowsSessionCreator:
    """Base of hooks that know, from `begin` on, the creator of the session they are for."""

    session_creator: Any = None

    @property
    def checkpoint_dir(self) -> str | None:
        """Where TensorFlow's own checkpoints are: an Estimator's `model_dir`. None: nowhere."""
        return getattr(self.session_creator, "_checkpoint_dir", None)

    @property
    def scaffold(self) -> Any:
        """The `tf.compat.v1.train.Scaffold` of the session, or None."""
        return getattr(self.session_creator, "_scaffold", None)


@functools.wraps(_init_session)
def _hooked_init(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
    for hook in hooks or []:
        if isinstance(hook, KnowsSessionCreator):
            hook.session_creator = session_creator
    _init_session(self, session_creator, hooks, *args, **kwargs)


_Session.__init__ = _hooked_init
