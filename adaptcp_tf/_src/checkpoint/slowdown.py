# SPDX-License-Identifier: Apache-2.0
"""Measures by how much training steps are longer while a checkpoint is being saved."""

from __future__ import annotations

import threading
import time

# Weight of the newest idle step in their mean.
_WEIGHT = 0.05
# Longer than this many usual steps is no step but a pause: validation, a new epoch, a debugger.
_PAUSE_STEPS = 5


class SlowdownMeter:
    """Compares steps that end while a checkpoint is saved with the others. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: float | None = None
        self._idle_secs: float | None = None
        self._lost_secs = 0.0

    def step_ended(self, saving: bool, now: float | None = None) -> None:
        """Notes the end of a step.

        Args:
            saving: whether a checkpoint was being saved during it.
            now: the time in seconds; None takes it.
        """
        now = time.perf_counter() if now is None else now
        with self._lock:
            last, self._last = self._last, now
            if last is None:
                return
            seconds = now - last
            if saving:
                self._add_saving_step(seconds)
            elif self._idle_secs is None or seconds * _PAUSE_STEPS < self._idle_secs:
                # The first step may have been a long one: it builds the graph.
                self._idle_secs = seconds
            elif seconds < _PAUSE_STEPS * self._idle_secs:
                self._idle_secs += _WEIGHT * (seconds - self._idle_secs)

    def _add_saving_step(self, seconds: float) -> None:
        if self._idle_secs is not None and seconds < _PAUSE_STEPS * self._idle_secs:
            self._lost_secs += seconds - self._idle_secs

    def take_lost_secs(self) -> float:
        """Returns the seconds that steps were longer for since the last call, at least 0."""
        with self._lock:
            lost, self._lost_secs = self._lost_secs, 0.0
            return max(0.0, lost)
