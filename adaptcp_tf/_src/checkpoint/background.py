# SPDX-License-Identifier: Apache-2.0
"""The thread that saves: one cut at a time, then retention, then whoever follows the checkpoints."""

from __future__ import annotations

import concurrent.futures
import functools
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.cutting import Cut
from adaptcp_tf._src.checkpoint.outcomes import Outcomes
from adaptcp_tf._src.checkpoint.saving import Saver
from adaptcp_tf._src.checkpoint.subject import Subject
from adaptcp_tf._src.manifest import Tiers
from adaptcp_tf._src.ops.eagerly import eagerly


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
        self._saving: concurrent.futures.Future | None = None

    @property
    def busy(self) -> bool:
        """Whether a cut is being saved."""
        return self._saving is not None and not self._saving.done()

    def start(self, cut: Cut, owner: Any) -> None:
        """Saves a cut; nothing else is being saved.

        Args:
            cut: the cut.
            owner: stays alive until the save has ended, whoever drops it.
        """
        self._saving = self._executor.submit(self._run, cut, owner)

    def wait(self, timeout_secs: float | None = None) -> bool:
        """Waits until nothing is being saved; returns False when that takes longer."""
        if self._saving is None:
            return True
        done, _ = concurrent.futures.wait([self._saving], timeout=timeout_secs)
        return bool(done)

    def _run(self, cut: Cut, owner: Any) -> None:
        try:
            # Where scripts of TF1 turn eager execution off, threads would build graphs.
            with eagerly():
                self._saver.save(cut)
        except errors.CheckpointFailedError as error:
            self._outcomes.fail(error)
            self._tell_subject(cut)
            return
        # Before and after retention: what a kill in between leaves, names a step that is there.
        self._tell_subject(cut)
        try:
            self._saver.collect_garbage()
        except errors.AdaptCPError as error:
            self._outcomes.fail(
                errors.CheckpointFailedError(
                    f"Step {cut.step} is saved, but old checkpoints could not be deleted: {error}"
                )
            )
        self._tell_subject(cut)

    def _tell_subject(self, cut: Cut) -> None:
        try:
            self._subject.save_ended(self._tiers.all_steps)
        except errors.AdaptCPError as error:
            self._outcomes.fail(
                errors.CheckpointFailedError(
                    f"After the save of step {cut.step} in {self._tiers.directory!r} what goes with "
                    f"the checkpoints could not be brought up to date. Received: {error}"
                )
            )
