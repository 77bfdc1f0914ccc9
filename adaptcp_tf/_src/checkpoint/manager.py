# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of checkpoints for custom loops; the Keras callback is built on it."""

from __future__ import annotations

import contextlib
import logging
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.background import BackgroundSaves
from adaptcp_tf._src.checkpoint.cutting import CutTaker
from adaptcp_tf._src.checkpoint.encodings import check_exact
from adaptcp_tf._src.checkpoint.opening import open_tiers, policy_of
from adaptcp_tf._src.checkpoint.options import CheckpointOptions
from adaptcp_tf._src.checkpoint.outcomes import Outcomes
from adaptcp_tf._src.checkpoint.restoring import (
    RestoreReport,
    Selection,
    check_checkpoint,
    find_manifest,
    load_checkpoint,
    tell_policy,
)
from adaptcp_tf._src.checkpoint.second_tier import weak_call
from adaptcp_tf._src.checkpoint.slowdown import SlowdownMeter
from adaptcp_tf._src.checkpoint.subject import ModelSubject, Subject
from adaptcp_tf._src.environment import check_is_right_keras
from adaptcp_tf._src.manifest import Manifest, Position, Tiers
from adaptcp_tf._src.reports import SaveReport, StorageStats
from adaptcp_tf._src.tables import PrefetchTargets, TableGroup

logger = logging.getLogger("adaptcp_tf")


class CheckpointManager:
    """Saves and restores a model with TFRA tables while it trains.

    Make it before the training step is built or called for the first time: what was traced before
    updates the tables without telling the manager. `save`, `restore` and `close` are called from
    the thread that trains, between steps.

    Example:
        >>> mgr = acp.CheckpointManager("/data/run1", model=model, optimizer=optimizer)
        >>> if mgr.latest_step() is not None:
        ...     mgr.restore()
        >>> for step, batch in enumerate(batches, start=1):
        ...     train_step(batch)
        ...     if step % 100 == 0:
        ...         mgr.save(step)
        >>> mgr.wait()
        >>> mgr.close()

    Args:
        directory: where checkpoints are kept, a path or a URI that TensorFlow can write.
        model: Keras model or other trackable whose TFRA and dense variables are saved.
        optimizer: its optimizer, when the model does not hold it.
        variables: TFRA variables that the model does not hold.
        options: how to save, keep and restore.

    Raises:
        DirectoryLockedError: another trainer uses the directory.
        InvalidOptionError: there is nothing to save, or an argument is not of the right kind.
        StorageError: the directory cannot be used.
    """

    def __init__(
        self,
        directory: str,
        *,
        model: Any = None,
        optimizer: Any = None,
        variables: Iterable[Any] = (),
        options: CheckpointOptions | None = None,
    ):
        check_is_right_keras(model)
        check_is_right_keras(optimizer)
        self._open(directory, ModelSubject(model, optimizer, variables), options)

    @classmethod
    def of_subject(
        cls, directory: str, subject: Subject, options: CheckpointOptions | None = None
    ) -> CheckpointManager:
        """Makes a manager of something else than a model.

        Raises:
            As the constructor does.
        """
        manager = cls.__new__(cls)
        manager._open(directory, subject, options)
        return manager

    def _open(self, directory: str, subject: Subject, options: CheckpointOptions | None) -> None:
        self._subject = subject
        self._options = options or CheckpointOptions()
        self._tiers = Tiers(directory, self._options.local_dir)
        self._groups: list[TableGroup] = []
        self._policy = policy_of(self._options)
        self._slowdown = SlowdownMeter()
        self._outcomes = Outcomes(self._tiers.directory)
        self._prefetch_targets = PrefetchTargets()
        self._skipped = 0
        held = contextlib.ExitStack()
        self._opened = open_tiers(
            self._tiers,
            self._options,
            self._policy,
            self._slowdown,
            self._outcomes,
            device_of=weak_call(self._device_of),
            held=held,
        )
        self._saver, self._second = self._opened.saver, self._opened.second
        self._cuts = CutTaker(self._policy, self._second, self._options)
        self._background = BackgroundSaves(self._saver, self._outcomes, subject, self._tiers)
        held.callback(subject.watch())
        held.callback(self._background.shutdown)
        # Also when the manager is dropped without close().
        self._finalizer = weakref.finalize(self, held.close)
        try:
            self._refresh_groups()
        except errors.AdaptCPError:
            self.close()
            raise

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return self._tiers.directory

    @property
    def reports(self) -> list[SaveReport]:
        """What became of the newest 1000 checkpoints that this manager committed, oldest first."""
        return self._outcomes.reports

    def report(self, step: int) -> SaveReport:
        """Returns what became of one of the newest 1000 checkpoints that this manager committed.

        Raises:
            CheckpointNotFoundError: it is none of them.
        """
        return self._outcomes.report(step)

    @property
    def storage(self) -> StorageStats:
        """How far the tiers are: the newest durable step of each, bytes, retries, waits."""
        return self._opened.stats()

    @property
    def busy(self) -> bool:
        """Whether the previous checkpoint is still being saved."""
        return self._background.busy

    @property
    def skipped(self) -> int:
        """How many saves were skipped because the previous one was still going on."""
        return self._skipped

    @property
    def prefetch_targets(self) -> PrefetchTargets:
        """Where `acp.data.prefetch` sends ids; whoever makes managers may set one of its own."""
        return self._prefetch_targets

    @prefetch_targets.setter
    def prefetch_targets(self, targets: PrefetchTargets) -> None:
        self._prefetch_targets = targets
        self._refresh_groups()

    def interval_secs(self) -> float | None:
        """Returns the seconds of training between two checkpoints that the policy would like.

        None while it does not know, or when it has no opinion.
        """
        wanted = getattr(self._policy, "interval_secs", None)
        return None if wanted is None else wanted()

    def latest_step(self) -> int | None:
        """Returns the newest step that was saved, None when there is none."""
        return self._tiers.latest_step()

    def all_steps(self) -> list[int]:
        """Returns the steps that can be restored, in ascending order."""
        return self._tiers.all_steps()

    def save(
        self,
        step: int,
        *,
        position: Position | None = None,
        counters: dict[str, Any] | None = None,
    ) -> bool:
        """Takes a cut and returns; the checkpoint is written while training goes on.

        Args:
            step: what to save it under; above every step in the directory.
            position: where in the input the cut is, for a resume.
            counters: JSON values to keep in the manifest.

        Returns:
            False when the save was skipped because the previous one is still going on and
            `when_busy` is "skip"; its rows will be in the next one.

        Raises:
            CheckpointFailedError: an earlier checkpoint failed in the background; told once. This
                one was not begun, call again. Or the buffer is full and stays so, since uploads fail.
            CheckpointExistsError: the directory holds this step or a later one.
            InvalidOptionError: the step is not an integer from 0, or too large; or the strategy wants
                fewer bits than `exact` allows; or `acp.data.prefetch` was given ids of a variable that
                is not there.
            IncompatibleModelError: tables were updated behind the manager's back.
        """
        start = time.perf_counter()
        self._raise_failure()
        self._check_open()
        self._tiers.front.manifest_path(step)  # raises for what cannot be a step
        if self._background.busy:
            if self._options.when_busy == "skip":
                self._skipped += 1
                logger.debug("step %d skipped: the previous checkpoint is still being saved", step)
                return False
            self._background.wait_for_save()
            self._raise_failure()
        self._saver.check_rises(step)
        self._refresh_groups(complete=True)
        cut = self._cuts.take(
            step,
            self._groups,
            self._subject.variables(),
            previous=self._saver.previous,
            position=position,
            counters=counters or {},
        )
        cut.stall_secs = time.perf_counter() - start
        # Whoever drops the manager now, drops it when the save has ended.
        self._background.start(cut, owner=self)
        return True

    def step_ended(self) -> None:
        """Tells that a training step ended. Optional.

        Called after every step it lets the strategy "adaptive" know by how much steps are longer
        while a checkpoint is being saved; without it only stalls count. The callback calls it.
        """
        self._slowdown.step_ended(saving=self._background.busy)

    def wait(self, timeout_secs: float | None = None, *, local: bool = False) -> None:
        """Returns when the newest checkpoint is durable in the directory.

        Args:
            timeout_secs: how long to wait at most; None waits as long as it takes.
            local: whether the buffer, if there is one, is durable enough.

        Raises:
            CheckpointFailedError: a checkpoint failed in the background; told once.
            TimeoutError: it takes longer.
        """
        start = time.monotonic()
        if not self._background.wait(timeout_secs):
            raise self._not_durable(timeout_secs)
        self._raise_failure()
        if self._second is None or local:
            return
        left = None if timeout_secs is None else timeout_secs - (time.monotonic() - start)
        if not self._second.wait(left):
            raise self._not_durable(timeout_secs)
        self._raise_failure()

    def take_failure(self) -> errors.CheckpointFailedError | None:
        """Returns what failed in the background since the last call, if anything did."""
        return self._outcomes.take_failure()

    def restore(
        self,
        step: int | None = None,
        *,
        groups: Iterable[str] | None = None,
        slots: bool = True,
        dense: bool = True,
    ) -> RestoreReport | None:
        """Replaces rows, slots, dense variables and trackers by those of a checkpoint.

        The number of devices of a TFRA variable may have changed: rows go where its partition
        function says. After that, and after a restore of parts, the next checkpoint is a base.

        A model that is not built yet is restored the moment its first call has built it, before
        that call computes anything.

        Example:
            >>> manager.restore(groups=["user_embedding"], slots=False, dense=False)

        Args:
            step: which checkpoint; None takes the newest.
            groups: names of the TFRA variables to restore; None takes all. Others keep their rows.
            slots: whether optimizer slots are restored; otherwise they start with the initial value.
            dense: whether dense variables are restored; otherwise they stay as they are.

        Returns:
            What was done; None when it waits for the model to be built.

        Raises:
            CheckpointNotFoundError: there is no such checkpoint.
            CorruptCheckpointError: a file of it is missing or damaged.
            InexactCheckpointError: it does not hold every bit, and the options say exact=True.
            IncompatibleModelError: the model is not the one that was saved.
            InvalidOptionError: `groups` names a variable that the checkpoint does not have.
            StorageError: a file could not be read.
        """
        selection = Selection(None if groups is None else tuple(groups), slots, dense)
        self._wait_for_save_in_flight()
        manifest = find_manifest(self._tiers, step)
        if self._options.exact:
            check_exact(manifest)
        if not self._subject.is_built():
            self._tiers.locate(manifest)
        return self._when_built(lambda: self._restore(manifest, selection))

    def change_rows(self, change: Callable[[list[TableGroup]], Any]) -> Any:
        """Lets `change` put other rows into the tables, with no save going on. For importers.

        Args:
            change: gets all table groups, with the slots made; what it replaces, it resets.

        Returns:
            What `change` returned; None when it waits for the model to be built.
        """
        self._wait_for_save_in_flight()

        def run() -> Any:
            self._subject.make_slots()
            self._refresh_groups()
            return change(list(self._groups))

        return self._when_built(run)

    def delete_newer(self, step: int) -> None:
        """Deletes the checkpoints after `step`, so that training can go on from that one.

        Args:
            step: the newest step to keep.

        Raises:
            CheckpointFailedError: a checkpoint failed in the background; told once.
            StorageError: something could not be deleted.
        """
        self._check_open()
        self.wait()
        for store in self._tiers.stores:
            store.delete_manifests(newer for newer in store.all_steps() if newer > step)
        if self._second is not None:
            self._second.withdraw(step)
        self._saver.deleted_newer(step)
        self._saver.collect_garbage()

    def close(self) -> None:
        """Waits until all is durable, gives back the directory and lets go of the variables.

        What cannot be uploaded stays in the buffer; the next manager uploads it.
        """
        if not self._finalizer.alive:
            return
        self._background.wait()
        if self._second is not None:
            self._second.wait(None)
        for group in self._groups:
            group.disclaim()
        self._groups = []
        self._finalizer()
        failure = self.take_failure()
        if failure is not None:
            logger.error("%s", failure)

    def _wait_for_save_in_flight(self) -> None:
        self._check_open()
        self._background.wait()

    def _when_built(self, action: Callable[[], Any]) -> Any:
        if self._subject.is_built():
            return action()
        self._subject.when_built(action)
        return None

    def _restore(self, manifest: Manifest, selection: Selection) -> RestoreReport:
        self._subject.make_slots()
        self._refresh_groups()
        variables = self._subject.variables()
        with contextlib.nullcontext() if self._second is None else self._second.restoring(manifest):
            paths = check_checkpoint(self._tiers, manifest, self._groups, variables, selection)
            # What the model holds from here on is in no checkpoint, unless all goes well.
            self._saver.previous = None
            report = load_checkpoint(
                paths,
                manifest,
                self._groups,
                variables,
                directory=self.directory,
                selection=selection,
                num_threads=self._options.restore_threads,
                read_threads=self._options.read_threads,
                progress=self._options.progress,
            )
        if self._second is not None:
            self._second.know(manifest, paths)
        if not selection.everything:
            return report
        shards = {group.name: group.num_shards for group in self._groups}
        resharded = any(shards[saved.name] != saved.num_shards for saved in manifest.groups)
        # Segments of other shards than there are now cannot be built on.
        self._saver.previous = None if resharded else manifest
        tell_policy(self._policy, manifest, report)
        return report

    def _refresh_groups(self, *, complete: bool = False) -> None:
        groups = self._subject.groups()
        for group in groups:
            group.claim(self)
        self._groups = groups
        complete = complete or self._subject.has_all_variables()
        self._prefetch_targets.bind(groups, complete=complete)

    def _device_of(self, group_name: str, shard: int) -> str:
        """Where a shard of a group lives; segments of other numbers of shards are read here."""
        for group in self._groups:
            if group.name == group_name and shard < len(group.shards):
                return group.shards[shard].device
        return ""

    def _not_durable(self, timeout_secs: float | None) -> TimeoutError:
        return TimeoutError(
            f"The checkpoint is not durable after {timeout_secs} s; it goes on in the "
            f"background. Directory: {self.directory!r}."
        )

    def _raise_failure(self) -> None:
        failure = self.take_failure()
        if failure is not None:
            raise failure

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise errors.InvalidOptionError(
                f"The manager of {self.directory!r} is closed. Make a new one."
            )
