# SPDX-License-Identifier: Apache-2.0
"""The thread that saves: one cut at a time, then retention, then whoever follows the checkpoints."""

from __future__ import annotations

import concurrent.futures
import functools
import time
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.cutting import Cut
from adaptcp_tf._src.checkpoint.outcomes import Outcomes
from adaptcp_tf._src.checkpoint.saving import Saver
from adaptcp_tf._src.checkpoint.subject import Subject
from adaptcp_tf._src.manifest import Tiers
from adaptcp_tf._src.ops.eagerly import eagerly

# After a checkpoint, retention runs only if it did not within so much time.
_RETENTION_RESTS_SECS = 1.0


class BackgroundSaves:
    """Saves cuts on a thread of its own; failures go to the outcomes.

    Called by the thread that trains; `shutdown()` by anyone, when nothing is being saved any more.

    Args:
        saver: saves a cut.
        outcomes: where failures are noted.
        subject: is told when a save has ended.
        tiers: where the checkpoints are.
    """

    def __init__(self, saver: Saver, outcomes: Outcomes, subject: Subject, tiers: Tiers):
        self._saver = saver
        self._outcomes = outcomes
        self._subject = subject
        self._tiers = tiers
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "adaptcp-save")
        # Ends the thread, and keeps nothing else alive. May run on that very thread, which cannot
        # wait for itself: there the last save lets go of an owner that nobody else holds.
        self.shutdown = functools.partial(self._executor.shutdown, wait=False)
        # The newest save, which must end before the next cut; and what is done after it.
        self._saving: concurrent.futures.Future | None = None
        self._tidying: concurrent.futures.Future | None = None
        # The newest step, while retention did not run after it; and when it may run again.
        self._untidied: int | None = None
        self._rests_until = 0.0

    @property
    def busy(self) -> bool:
        """Whether a cut is being saved."""
        return self._saving is not None and not self._saving.done()

    def start(self, cut: Cut, owner: Any) -> None:
        """Saves a cut; no other one is being saved.

        Args:
            cut: the cut.
            owner: stays alive until the save has ended, whoever drops it.
        """
        self._saving = self._executor.submit(self._save, cut)
        self._tidying = self._executor.submit(self._tidy_up, cut.step, self._saving, owner)

    def wait_for_save(self) -> None:
        """Waits until no cut is being saved; retention may go on."""
        if self._saving is not None:
            concurrent.futures.wait([self._saving])

    def wait(self, timeout_secs: float | None = None) -> bool:
        """Waits until there is nothing to do; returns False when that takes longer."""
        start = time.monotonic()
        while self._tidying is not None:
            left = None if timeout_secs is None else timeout_secs - (time.monotonic() - start)
            done, _ = concurrent.futures.wait([self._tidying], timeout=left)
            if not done:
                return False
            self._tidying = None
            if self._untidied is not None:
                try:
                    self._tidying = self._executor.submit(self._apply_retention, self._untidied)
                except RuntimeError:  # The interpreter ends, and nothing runs on that thread.
                    self._apply_retention(self._untidied)
        return True

    def _save(self, cut: Cut) -> bool:
        """Tells whether there is a checkpoint now."""
        try:
            # Where scripts of TF1 turn eager execution off, threads would build graphs.
            with eagerly():
                self._saver.save(cut)
        except errors.CheckpointFailedError as error:
            self._outcomes.fail(error)
            return False
        return True

    def _tidy_up(self, step: int, saving: concurrent.futures.Future, owner: Any) -> None:
        # Before and after retention: what a kill in between leaves, names a step that is there.
        self._tell_subject(step)
        if not saving.result():
            return
        self._untidied = step
        # Where one checkpoint follows the other, the next one waits for this thread.
        if time.monotonic() >= self._rests_until:
            self._apply_retention(step)

    def _apply_retention(self, step: int) -> None:
        self._rests_until = time.monotonic() + _RETENTION_RESTS_SECS
        self._untidied = None
        try:
            self._saver.collect_garbage()
        except errors.AdaptCPError as error:
            self._outcomes.fail(
                errors.CheckpointFailedError(
                    f"Step {step} is saved, but old checkpoints could not be deleted: {error}"
                )
            )
        self._tell_subject(step)

    def _tell_subject(self, step: int) -> None:
        try:
            self._subject.save_ended(self._tiers.all_steps)
        except errors.AdaptCPError as error:
            self._outcomes.fail(
                errors.CheckpointFailedError(
                    f"After the save of step {step} in {self._tiers.directory!r} what goes with "
                    f"the checkpoints could not be brought up to date. Received: {error}"
                )
            )
