# SPDX-License-Identifier: Apache-2.0
"""Checkpoints a TF1 graph with TFRA tables while a session trains it, and resumes it."""

from __future__ import annotations

import atexit
import dataclasses
import logging
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint import CheckpointManager, CheckpointOptions
from adaptcp_tf._src.checkpoint.restoring import RestoreReport
from adaptcp_tf._src.estimator.input_streams import InputStream
from adaptcp_tf._src.estimator.reading import WarmStart, global_step_of
from adaptcp_tf._src.estimator.session_creators import KnowsSessionCreator
from adaptcp_tf._src.estimator.session_subject import SessionSubject
from adaptcp_tf._src.estimator.tf_checkpoints import TensorFlowCheckpoints
from adaptcp_tf._src.manifest import Tiers
from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.policy import Policy
from adaptcp_tf._src.tables import GraphTables

logger = logging.getLogger("adaptcp_tf")


class AdaptiveCheckpointHook(tf.compat.v1.train.CheckpointSaverHook, KnowsSessionCreator):
    """Saves checkpoints while an Estimator or a MonitoredTrainingSession trains, and resumes it.

    A save that fails is a warning, and training goes on, as with `acp.keras.AdaptiveCheckpoint`; its
    rows are in the next one. Only the last save, at the end, is tried twice, and then raises.

    Tables made with `acp.TrackedTableCreator`, their slots, and all global variables are restored
    before the first step. The tables are no part of TensorFlow's own checkpoints any more. Those are
    written by this hook: they are of the same steps as the hook's, and kept as long. To evaluate or
    predict, give `acp.estimator.RestoreHook`.

    Example:
        >>> hook = acp.estimator.AdaptiveCheckpointHook("/data/run1", save_steps=100)
        >>> estimator.train(lambda: hook.resume(dataset()), hooks=[hook])

    Args:
        directory: where checkpoints are kept, a path or a URI that TensorFlow can write.
        save_steps: save every so many steps.
        save_secs: or save every so many seconds. Every 600 if neither is given.
        warm_start: where the rows come from while `directory` has no checkpoint.
        listeners: `tf.compat.v1.train.CheckpointSaverListener`s. If there are any, a save returns
            when its checkpoint is durable in the first tier, so that they find it.
        strategy, hot_threshold, hysteresis, base_every, mean_secs_between_failures,
            rate_half_life_intervals, encoding, slot_encoding, exact, max_to_keep, keep_period,
            local_dir, local_bytes, max_writers, upload_threads, upload_patience_secs, when_busy,
            restore_threads, read_threads, steal_lock, progress, log_dir: as in `CheckpointOptions`.

    Raises:
        InvalidOptionError: an argument is not of the right kind.
    """

    def __init__(
        self,
        directory: str,
        *,
        save_steps: int | None = None,
        save_secs: float | None = None,
        warm_start: WarmStart | None = None,
        listeners: list[tf.compat.v1.train.CheckpointSaverListener] | None = None,
        strategy: str | Policy = "adaptive",
        **options: Any,
    ):
        if save_steps is None and save_secs is None:
            save_secs = 600
        _check_schedule(save_steps, save_secs)
        known = {field.name for field in dataclasses.fields(CheckpointOptions)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise errors.InvalidOptionError(
                f"Unknown arguments. Received: {unknown}. Expected: some of {sorted(known)}."
            )
        # An Estimator adds its listeners to the hook that is of this class, and then none of its own.
        super().__init__(directory, save_steps=save_steps, save_secs=save_secs, listeners=listeners)
        self._own_listeners = list(self._listeners)
        self._options = CheckpointOptions(strategy=strategy, **options)
        self._directory = directory
        self._schedule = tf.compat.v1.train.SecondOrStepTimer(
            every_secs=save_secs, every_steps=save_steps
        )
        self._warm_start = warm_start
        self._tiers = Tiers(directory, self._options.local_dir)
        self._manager: CheckpointManager | None = None
        self._tf_saver: tf.compat.v1.train.Saver | None = None
        self._stream = InputStream()
        self._last_saved: int | None = None
        # What was only logged since the last save, in case that there is no checkpoint in the end.
        self._failure: errors.AdaptCPError | None = None
        self._opened = False
        self.restored: RestoreReport | None = None

    @property
    def manager(self) -> CheckpointManager:
        """The manager that saves; there is one while a session trains, and the last one after."""
        if self._manager is None:
            raise errors.InvalidOptionError(
                "There is no manager yet. Give this hook to a training session first."
            )
        return self._manager

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict a checkpoint of the latest session, as of the Keras callback."""
        reports = [] if self._manager is None else self._manager.reports
        return [dataclasses.asdict(report) for report in reports]

    def resume(self, dataset: tf.data.Dataset, stream: str = "") -> tf.data.Dataset:
        """Returns a dataset without the batches that were trained on before the newest checkpoint.

        A checkpoint that an earlier training with this hook still saves is waited for.

        Example:
            >>> estimator.train(lambda: hook.resume(day(2), stream="day 2"), hooks=[hook])

        Args:
            dataset: the batches of all epochs, one a step, in the same order each time.
            stream: a name of the input. Nothing of a stream that the checkpoint does not know has
                been trained on.

        Raises:
            CorruptCheckpointError: the checkpoint's manifest is damaged.
            StorageError: the directory could not be read.
        """
        # What an earlier training still saves is what `begin` will find.
        self.close()
        latest = self._tiers.latest_step()
        manifest = None if latest is None else self._tiers.read(latest)
        return self._stream.resumed(dataset, stream, manifest)

    def begin(self) -> None:
        """Takes the directory, and the tables out of TensorFlow's own checkpoints.

        Raises:
            DirectoryLockedError: another trainer uses the directory.
            IncompatibleModelError: TensorFlow's own checkpoints were trained without this hook.
            InvalidOptionError: the graph has no global step, or tables that are not tracked.
            StorageError: a directory cannot be used.
        """
        self.close()
        graph = tf.compat.v1.get_default_graph()
        self._step = global_step_of(graph)
        self._tables = GraphTables(graph)
        self._tables.leave_savers()
        self._checkpoints = None
        if self.checkpoint_dir is not None:
            self._checkpoints = TensorFlowCheckpoints(self.checkpoint_dir)
            self._tf_saver = self._take_saver(graph)
        self._subject = SessionSubject(self._tables, self._checkpoints)
        self._manager = CheckpointManager.of_subject(self._directory, self._subject, self._options)
        atexit.register(self._manager.close)
        if self._checkpoints is not None:
            try:
                self._checkpoints.adopt(self._manager.all_steps())
            except BaseException:
                self.close()
                raise
        self._last_saved = None
        self._failure = None
        self._opened = False
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Restores what the session trains, and saves where it starts.

        Raises:
            InvalidOptionError: `resume` was called for another step than the session starts at.
            As `CheckpointManager.restore` does.
        """
        if self._opened:
            # The session before broke down; what it had not saved is lost.
            self._wait_and_warn()
        self._subject.open(session)
        with eagerly():
            latest = self._manager.latest_step()
            if latest is not None:
                self.restored = self._manager.restore(latest)
            elif self._warm_start is not None:
                self.restored = self._warm_start.load(
                    self._subject.groups(), self._subject.variables()
                )
        self._opened = True
        step = int(session.run(self._step))
        self._stream.begin_at(step, restored=latest is not None)
        self._last_saved = latest
        self._save(session, step)
        self._schedule.update_last_triggered_step(step)

    def before_run(self, run_context: Any) -> tf.compat.v1.train.SessionRunArgs:
        """Asks for the global step."""
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves when it is time, and tells of saves that failed."""
        self._manager.step_ended()
        self._warn_of_failure()
        # The step may have been read before the training op counted it up.
        if not self._schedule.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._step))
        if self._schedule.should_trigger_for_step(step):
            self._schedule.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        """Saves what was trained since the last checkpoint, and waits until all is durable.

        A save that fails is tried once more. What else failed in the background is a warning.

        Raises:
            CheckpointFailedError: the last checkpoint failed, or could not be uploaded.
        """
        try:
            step = int(session.run(self._step))
            self._save_last(session, step)
            for listener in self._listeners:
                listener.end(session, step)
        finally:
            # Those that an Estimator added are of this training only.
            self._listeners[:] = self._own_listeners
            self.close()

    def close(self) -> None:
        """Waits for the last checkpoint and gives the directory back. Sessions that end well do."""
        if self._manager is not None:
            self._manager.close()
            self._subject.close()
            atexit.unregister(self._manager.close)
        if self._tf_saver is not None:
            self._tf_saver.__dict__.pop("save", None)
            self._tf_saver = None

    def _save(self, session: tf.compat.v1.Session, step: int) -> bool:
        """Saves between the calls of the listeners; returns whether one wants to stop training."""
        for listener in self._listeners:
            listener.before_save(session, step)
        self._save_both(session, step, wait=bool(self._listeners))
        if self._last_saved != step:
            return False
        return any([listener.after_save(session, step) for listener in self._listeners])

    def _save_both(self, session: tf.compat.v1.Session, step: int, *, wait: bool) -> None:
        """Saves the tables and TensorFlow's own checkpoint of a step, or neither.

        Args:
            session: the session.
            step: its global step.
            wait: whether to return when both are there; otherwise they may also be left out.
        """
        if self._has_saved(step):
            self._complete(session, step)
            return
        if not wait and self._manager.busy and self._options.when_busy == "skip":
            logger.debug("step %d skipped: the previous checkpoint is still being saved", step)
            return
        self._wait_and_warn()
        self._failure = None
        try:
            self._write_for_tensorflow(session, step)
            # A save is not begun while there is a failure that nobody was told of.
            self._warn_of_failure()
            with eagerly():
                if self._manager.save(step, counters=self._stream.counters()):
                    self._last_saved = step
            if wait:
                self._manager.wait(local=True)
        except (errors.CheckpointFailedError, errors.StorageError) as error:
            self._last_saved = None
            self._failure = error
            self._go_on_after(error, step)

    def _go_on_after(self, error: errors.AdaptCPError, step: int) -> None:
        """Tells what went wrong with the save of a step, which may be saved in spite of it."""
        try:
            if self._manager.storage.local_step == step:
                self._last_saved = step
                logger.warning("%s", error)
                return
            logger.warning("step %d is not saved: %s", step, error)
            self._subject.save_ended(self._manager.all_steps)
        except errors.AdaptCPError as other:
            logger.warning("nor could the checkpoints be put in order: %s", other)

    def _save_last(self, session: tf.compat.v1.Session, step: int) -> None:
        """Saves a step, if need be twice, and waits until it is durable in the directory.

        Raises:
            CheckpointFailedError: it is not.
        """
        for _ in range(2):
            # Nothing trains any more, so there is no reason to skip.
            self._wait_and_warn()
            if not self._is_whole(step):
                self._save(session, step)
        self._wait_and_warn()
        if not self._has_saved(step):
            raise errors.CheckpointFailedError(
                f"The last checkpoint, of step {step}, is not saved. Expected: step {step} as the "
                f"newest in {self._directory!r}. Received: {self._manager.storage.local_step}. What "
                "was trained since is lost; train again from there. Cause: "
                f"{self._failure or 'none was told'}"
            ) from self._failure
        for _ in range(2):
            # What is told first may be of another upload, and ends the wait.
            if self._manager.storage.remote_step != step:
                self._wait_and_warn(local=False)
        uploaded = self._manager.storage.remote_step
        if uploaded != step:
            raise errors.CheckpointFailedError(
                f"The last checkpoint, of step {step}, is in the buffer {self._options.local_dir!r} "
                f"only. Expected: step {step} as the newest in {self._directory!r}. Received: "
                f"{uploaded}. The next training with this buffer uploads it. Cause: "
                f"{self._failure or 'none was told'}"
            ) from self._failure
        if not self._is_whole(step):
            raise errors.CheckpointFailedError(
                f"The last checkpoint, of step {step}, is saved, but not TensorFlow's own of that "
                f"step. Expected: it in {self._checkpoints.directory!r}, for whoever evaluates. The "
                f"next training writes it. Cause: {self._failure or 'none was told'}"
            ) from self._failure

    def _has_saved(self, step: int) -> bool:
        """Whether the manager has a step, or is about to: nobody has told otherwise."""
        if step != self._last_saved:
            return False
        return self._manager.busy or self._manager.storage.local_step == step

    def _is_whole(self, step: int) -> bool:
        """Whether a step is saved, and TensorFlow's own checkpoint with it."""
        own = self._checkpoints is None or self._checkpoints.has(step)
        return own and self._has_saved(step)

    def _complete(self, session: tf.compat.v1.Session, step: int) -> None:
        """Writes TensorFlow's checkpoint of a step that the manager has, if it was lost."""
        if self._checkpoints is None or self._checkpoints.has(step):
            return
        self._wait_and_warn()
        if self._checkpoints.has(step) or not self._has_saved(step):
            return
        try:
            self._write_for_tensorflow(session, step)
            self._subject.save_ended(self._manager.all_steps)
        except errors.StorageError as error:
            self._failure = error
            logger.warning("TensorFlow's checkpoint of step %d is not written: %s", step, error)

    def _write_for_tensorflow(self, session: tf.compat.v1.Session, step: int) -> None:
        if self._checkpoints is not None:
            self._checkpoints.write(session, self._tf_saver, step)

    def _take_saver(self, graph: tf.Graph) -> tf.compat.v1.train.Saver:
        """Has all others who save with the session's Saver, save with this hook."""
        saver = None if self.scaffold is None else self.scaffold.saver
        savers = graph.get_collection_ref(tf.compat.v1.GraphKeys.SAVERS)
        if saver is None and not savers:
            savers.append(
                tf.compat.v1.train.Saver(
                    sharded=True, allow_empty=True, defer_build=True, save_relative_paths=True
                )
            )
        saver = saver or savers[0]
        saver.save = self._save_for_others
        return saver

    def _save_for_others(
        self, session: tf.compat.v1.Session, *unused: Any, **also_unused: Any
    ) -> None:
        # Before there is a session, what others would save is not restored yet.
        if not self._opened:
            return
        self._save_both(session, int(session.run(self._step)), wait=True)

    def _wait_and_warn(self, *, local: bool = True) -> None:
        try:
            self._manager.wait(local=local)
        except errors.CheckpointFailedError as error:
            self._failure = error
            logger.warning("%s", error)

    def _warn_of_failure(self) -> None:
        failure = self._manager.take_failure()
        if failure is not None:
            self._failure = failure
            logger.warning("%s", failure)


def _check_schedule(save_steps: int | None, save_secs: float | None) -> None:
    given = {"save_steps": save_steps, "save_secs": save_secs}
    positive = [
        not isinstance(value, bool) and isinstance(value, (int, float)) and value > 0
        for value in given.values()
        if value is not None
    ]
    whole = save_steps is None or isinstance(save_steps, int)
    if len(positive) != 1 or not all(positive) or not whole:
        raise errors.InvalidOptionError(
            f"Invalid values for save_steps and save_secs. Received: {given}. Expected: a positive "
            "number of steps, or of seconds."
        )
