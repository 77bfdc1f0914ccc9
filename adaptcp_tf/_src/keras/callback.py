# SPDX-License-Identifier: Apache-2.0
"""Checkpoints a Keras model with TFRA tables during `fit`, and resumes it."""

from __future__ import annotations

import atexit
import dataclasses
import logging
import time
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint import CheckpointManager, CheckpointOptions
from adaptcp_tf._src.checkpoint.restoring import RestoreReport
from adaptcp_tf._src.keras.export_best import ExportBest
from adaptcp_tf._src.keras.fellows import check_fellows, fellow_callbacks
from adaptcp_tf._src.keras.first_step import before_first_step, build_without_step
from adaptcp_tf._src.keras.resume import InitialPosition, is_one_pass, resumed
from adaptcp_tf._src.manifest import Manifest, Position, Tiers
from adaptcp_tf._src.policy import Policy
from adaptcp_tf._src.tables import PrefetchTargets

logger = logging.getLogger("adaptcp_tf")

_START = Position(epoch=0, batch=0, batches_total=0)
# Under this name a checkpoint tells whether all epochs share one iteration over the input.
_ONE_PASS = "input_in_one_pass"
# Between checkpoints, until the strategy knows better.
_FIRST_INTERVAL_SECS = 60.0


class AdaptiveCheckpoint(tf.keras.callbacks.Callback):
    """Saves checkpoints while `fit` trains, and continues from the newest one.

    Finds every TFRA variable of the model, with its optimizer's slots, and restores rows, slots,
    dense variables, optimizer counters and metrics before the first step. A training that is killed
    at any instant and started again ends as one that was never interrupted, if its input and model
    are deterministic and `fit` is given `resume(dataset)`.

    Example:
        >>> cb = acp.keras.AdaptiveCheckpoint("/data/run1", save_freq=100)
        >>> model.fit(cb.resume(dataset), epochs=3, callbacks=[cb])
        >>> cb.wait()

    Args:
        directory: where checkpoints are kept, a path or a URI that TensorFlow can write.
        save_freq: save every so many batches, or "epoch", or "auto": whenever the seconds have passed
            that the strategy "adaptive" finds to lose least, by what checkpoints cost and failures
            lose in this run; at first every minute.
        strategy, hot_threshold, hysteresis, base_every, mean_secs_between_failures,
            rate_half_life_intervals, encoding, slot_encoding, exact, max_to_keep, keep_period,
            local_dir, local_bytes, max_writers, upload_threads, upload_patience_secs, when_busy,
            restore_threads, read_threads, steal_lock, progress, log_dir: as in `CheckpointOptions`.
        restore: whether to continue from the newest checkpoint.
        save_at_end: whether to save when `fit` ends.
        export_best: an `ExportBest`, which exports the model for serving after the best epochs.

    Raises:
        InvalidOptionError: an argument is not of the right kind. `fit` raises it too, when it should
            continue in the middle of an epoch and was not given `resume(dataset)`, or has a callback
            that cannot work beside this one: BackupAndRestore, or EarlyStopping with
            restore_best_weights.
    """

    def __init__(
        self,
        directory: str,
        save_freq: int | str = 100,
        *,
        strategy: str | Policy = "adaptive",
        restore: bool = True,
        save_at_end: bool = True,
        export_best: ExportBest | None = None,
        **options: Any,
    ):
        super().__init__()
        # Keeps Keras from waiting for each batch's logs on the callback's behalf.
        self._supports_tf_logs = True
        _check_save_freq(save_freq, strategy)
        known = {field.name for field in dataclasses.fields(CheckpointOptions)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise errors.InvalidOptionError(
                f"Unknown arguments. Received: {unknown}. Expected: some of {sorted(known)}."
            )
        self._options = CheckpointOptions(strategy=strategy, **options)
        self._directory = directory
        self._save_freq = save_freq
        self._restore = restore
        self._save_at_end = save_at_end
        self._export_best = export_best
        self._manager: CheckpointManager | None = None
        self._prefetch_targets = PrefetchTargets()
        self._position = _START
        self._last_saved: int | None = None
        self._last_save_at = 0.0
        self._started = False
        self._epoch_began = False
        # The dataset that `fit` got, as far as `resume` has seen it.
        self._cardinality: int | None = None
        self._element_spec: Any = None
        self._tiers = Tiers(directory, self._options.local_dir)
        self._restore_step = self._tiers.latest_step() if restore else None
        self.restored: RestoreReport | None = None

    @property
    def manager(self) -> CheckpointManager:
        """The manager that saves; made when `fit` begins."""
        if self._manager is None:
            raise errors.InvalidOptionError(
                "There is no manager yet. Call fit(..., callbacks=[this callback]) first."
            )
        return self._manager

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict a checkpoint, of the newest 1000, with the fields of `SaveReport`."""
        reports = [] if self._manager is None else self._manager.reports
        return [dataclasses.asdict(report) for report in reports]

    @property
    def prefetch_targets(self) -> PrefetchTargets:
        """Where `acp.data.prefetch` sends ids."""
        return self._prefetch_targets

    def resume(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the dataset to give to `fit`: without what was trained on already.

        Example:
            >>> model.fit(cb.resume(dataset), epochs=3, callbacks=[cb])

        Args:
            dataset: batches; the same as in the interrupted training, in the same order.

        Returns:
            A dataset of the same elements, that starts where the newest checkpoint was taken; all of
            it if an earlier `fit` with this callback has resumed already.
        """
        self._cardinality = int(dataset.cardinality())
        self._element_spec = dataset.element_spec
        if self._started:
            return dataset
        checkpoint = self._checkpoint()
        if checkpoint is None:
            return resumed(dataset, _START, one_pass=False)
        one_pass = bool(checkpoint.counters.get(_ONE_PASS, False))
        return resumed(dataset, checkpoint.position, one_pass=one_pass)

    def wait(self, timeout_secs: float | None = None) -> None:
        """Returns when every checkpoint is durable.

        Raises:
            CheckpointFailedError: a checkpoint failed in the background; told once.
            TimeoutError: it takes longer than `timeout_secs`.
        """
        if self._manager is not None:
            self._manager.wait(timeout_secs)

    def close(self) -> None:
        """Waits for the last checkpoint and gives the directory back."""
        if self._manager is not None:
            self._manager.close()

    def set_model(self, model: tf.keras.Model) -> None:
        """Notes the model of the `fit` that begins, before any callback has acted."""
        check_fellows(fellow_callbacks(self))
        super().set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        """Prepares the restore, which happens when the first step has been built."""
        if self._manager is None:
            self._check_may_start_anew()
            self._manager = CheckpointManager(
                self._directory, model=self.model, options=self._options
            )
            atexit.register(self._manager.close)
            self._manager.prefetch_targets = self._prefetch_targets
        # A step that was traced before this callback existed updates tables behind its back.
        self.model.train_function = self.model.make_train_function(force=not self._started)
        checkpoint = None if self._started else self._checkpoint()
        if checkpoint is not None:
            self._continue_from(checkpoint.position)
        self._started = True
        self._last_save_at = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        self._epoch_began = True
        batch = self._position.batch if epoch == self._position.epoch else 0
        self._position = dataclasses.replace(self._position, epoch=epoch, batch=batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves when it is time, and tells of saves that failed."""
        self._manager.step_ended()
        before = self._position
        self._position = Position(
            epoch=before.epoch,
            batch=batch + 1,
            batches_total=before.batches_total + batch + 1 - before.batch,
        )
        self._warn_of_failure()
        if self._is_due(before.batches_total):
            self._save()

    def _is_due(self, batches_before: int) -> bool:
        if self._save_freq == "epoch":
            return False
        if self._save_freq == "auto":
            interval_secs = self._manager.interval_secs() or _FIRST_INTERVAL_SECS
            return time.monotonic() - self._last_save_at >= interval_secs
        return batches_before // self._save_freq != self._position.batches_total // self._save_freq

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves when every epoch is saved."""
        self._position = dataclasses.replace(self._position, epoch=epoch + 1, batch=0)
        if self._save_freq == "epoch":
            self._save()
        if self._export_best is not None:
            self._export_best.epoch_ended(self.model, self._position.batches_total, logs)

    def on_train_end(self, logs: Any = None) -> None:
        """Saves what was trained since the last checkpoint."""
        self.model._training_state = None
        if self._restore_step is not None and self._last_saved is None:
            self._restore_without_training()
        if self._save_at_end and self._last_saved != self._position.batches_total:
            # Nothing trains any more, so there is no reason to skip.
            try:
                self._manager.wait(local=True)
            except errors.CheckpointFailedError as error:
                logger.warning("%s", error)
            self._save()

    def _continue_from(self, position: Position) -> None:
        """Has `fit` start at a position, and restore there."""
        batch = position.batch
        if batch > 0 and self._element_spec is None:
            raise errors.InvalidOptionError(
                f"The checkpoint of step {self._restore_step} in {self._directory!r} was taken after "
                f"batch {batch} of an epoch, but `fit` would begin with the first one again. Give "
                "it resume(dataset) of this callback, or save with save_freq='epoch'."
            )
        self._position = position
        # Nobody knows whether an epoch of unknown length goes on after this batch, and `fit` refuses
        # one without any step. So it is told of the last finished step again, which is not repeated.
        last_step_again = batch > 0 and self.params.get("steps") is None
        if last_step_again:
            batch -= int(self.model._steps_per_execution)
        self.model._training_state = InitialPosition(position.epoch, batch)
        before_first_step(self.model, self._restore_checkpoint, instead=last_step_again)

    def _check_may_start_anew(self) -> None:
        latest = self._tiers.latest_step()
        if not self._restore and latest is not None:
            raise errors.InvalidOptionError(
                f"restore=False, but {self._directory!r} holds checkpoints up to step {latest}. "
                "Expected: a directory without checkpoints, so that those of two trainings do not "
                "mix. Choose another directory or empty this one."
            )

    def _save(self) -> None:
        step = self._position.batches_total
        if step == self._last_saved:
            return
        one_pass = is_one_pass(self._cardinality, self.params.get("steps"))
        arguments = {"position": self._normal_position(), "counters": {_ONE_PASS: one_pass}}
        saved = False
        for _ in range(2):
            try:
                saved = self._manager.save(step, **arguments)
                break
            except errors.CheckpointFailedError as error:
                # Of an earlier checkpoint; or this one cannot begin, as the second try shows.
                logger.warning("%s", error)
        self._last_save_at = time.monotonic()
        if saved:
            self._last_saved = step

    def _normal_position(self) -> Position:
        """The position, with the end of an epoch told as the beginning of the next."""
        position = self._position
        if position.batch and position.batch == self.params.get("steps"):
            return dataclasses.replace(position, epoch=position.epoch + 1, batch=0)
        return position

    def _warn_of_failure(self) -> None:
        failure = self._manager.take_failure()
        if failure is not None:
            logger.warning("%s", failure)

    def _checkpoint(self) -> Manifest | None:
        """The checkpoint to continue from, or None."""
        if self._restore_step is None:
            return None
        checkpoint = self._tiers.read(self._restore_step)
        if checkpoint.position is None:
            raise errors.InvalidOptionError(
                f"The checkpoint of step {self._restore_step} in {self._directory!r} does not say "
                "where in the input it was taken. Expected: a checkpoint of this callback. Restore "
                "it with CheckpointManager.restore and train into another directory."
            )
        return checkpoint

    def _restore_checkpoint(self) -> None:
        self.restored = self._manager.restore(self._restore_step)
        if self._epoch_began and self._position.batch == 0:
            # The checkpoint has the metrics of the epoch that had ended; `fit` reset them before.
            self.model.reset_metrics()
        self._last_saved = self._position.batches_total

    def _restore_without_training(self) -> None:
        """Restores after a `fit` that had nothing left to train, and so built no step."""
        if self._element_spec is not None:
            build_without_step(self.model, self._element_spec)
        else:
            self._restore_checkpoint()


def _check_save_freq(save_freq: int | str, strategy: str | Policy) -> None:
    if save_freq == "auto":
        if strategy != "adaptive" and not hasattr(strategy, "interval_secs"):
            raise errors.InvalidOptionError(
                f"Invalid value for save_freq. Received: 'auto' with the strategy {strategy!r}. "
                "Expected: the strategy 'adaptive', or a policy with a method interval_secs()."
            )
    elif save_freq != "epoch" and (
        isinstance(save_freq, bool) or not isinstance(save_freq, int) or save_freq < 1
    ):
        raise errors.InvalidOptionError(
            f"Invalid value for save_freq. Received: {save_freq!r}. Expected: a positive number of "
            "batches, 'epoch' or 'auto'."
        )
