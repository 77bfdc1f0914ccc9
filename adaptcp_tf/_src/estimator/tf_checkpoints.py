# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own checkpoints of a TF1 graph, kept to the steps that a manager has."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.python.checkpoint.checkpoint_management import update_checkpoint_state_internal

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import translated

logger = logging.getLogger("adaptcp_tf")

_BASENAME = "model.ckpt"
_INDEX = re.compile(rf"{re.escape(_BASENAME)}-(\d+)\.index")


class TensorFlowCheckpoints:
    """The `model.ckpt-STEP` files of a directory, and its file `checkpoint`, which lists them.

    The files of a step are written before the manager commits it, and listed afterwards: what is
    listed has its rows, and what the manager has can be listed. Thread-safe.

    Args:
        directory: an Estimator's `model_dir`.
    """

    def __init__(self, directory: str):
        self._directory = files.normalize(directory)
        self._mutex = threading.Lock()
        # Steps that are there and also the manager's, or about to be.
        self._paired: set[int] = set()
        self._pending: int | None = None
        # Steps that TensorFlow's list names; it may fail to be written.
        self._in_list: set[int] = set()
        # Steps whose files are to be deleted; that may fail as well.
        self._doomed: set[int] = set()

    @property
    def directory(self) -> str:
        """Where they are."""
        return self._directory

    def adopt(self, steps: Iterable[int]) -> None:
        """Finds what earlier processes left, and lists what the manager has.

        Files of a save that was killed are deleted; checkpoints that TensorFlow lists but the manager
        lacks are not listed any more.

        Args:
            steps: those that the manager has.

        Raises:
            IncompatibleModelError: there are trained checkpoints here, and the manager has none.
            StorageError: the directory cannot be used.
        """
        steps = set(steps)
        newest = max(steps, default=-1)
        listed = self._listed()
        if not steps and any(step > 0 for step in listed):
            raise errors.IncompatibleModelError(
                f"{self._directory!r} holds a checkpoint of TensorFlow's of step {max(listed)}, but "
                "there is none of the tables: they would start empty beside trained variables. "
                "Expected: the directory that the tables were saved to, or an empty model_dir."
            )
        with self._mutex:
            there = self._steps_there()
            self._paired = there & steps
            self._in_list = listed & self._paired
            for step in sorted(there - steps - listed):
                if step > newest >= 0:
                    self._delete(step)
            if self._paired and listed != self._paired:
                if listed - self._paired:
                    logger.warning(
                        "checkpoints of steps %s in %r have no rows and are not listed any more",
                        sorted(listed - self._paired),
                        self._directory,
                    )
                self._list()

    def write(
        self, session: tf.compat.v1.Session, saver: tf.compat.v1.train.Saver, step: int
    ) -> None:
        """Writes the files of a step, durably. They are listed when `keep` learns of the step.

        Raises:
            StorageError: they could not be written.
        """
        prefix = self._prefix(step)
        with self._mutex:
            self._pending = step
            self._doomed.discard(step)
        files.make_dirs(self._directory)
        with session.graph.as_default(), translated("write TensorFlow's checkpoint", prefix):
            type(saver).save(
                saver,
                session,
                files.join(self._directory, _BASENAME),
                global_step=step,
                write_meta_graph=False,
                write_state=False,
            )
        for name in self._names_of(step):
            files.sync_file(files.join(self._directory, name))

    def has(self, step: int) -> bool:
        """Whether the step is here, and listed."""
        with self._mutex:
            return step in self._in_list

    def keep(self, steps: Iterable[int]) -> None:
        """Lists the steps that the manager has, and deletes those that it has no more.

        Raises:
            StorageError: a file could not be written or deleted.
        """
        with self._mutex:
            if self._pending is not None:
                self._paired.add(self._pending)
                self._pending = None
            self._doomed |= self._paired - set(steps)
            self._paired -= self._doomed
            if self._paired and self._paired != self._in_list:
                self._list()
            failure = None
            for step in sorted(self._doomed):
                try:
                    self._delete(step)
                    self._doomed.discard(step)
                except errors.StorageError as error:
                    failure = failure or error
            if failure is not None:
                raise failure

    def _list(self) -> None:
        prefixes = [self._prefix(step) for step in sorted(self._paired)]
        with translated("write", files.join(self._directory, "checkpoint")):
            update_checkpoint_state_internal(
                self._directory,
                prefixes[-1],
                all_model_checkpoint_paths=prefixes,
                save_relative_paths=True,
            )
        self._in_list = set(self._paired)

    def _listed(self) -> set[int]:
        state = tf.train.get_checkpoint_state(self._directory)
        names = (
            []
            if state is None
            else [*state.all_model_checkpoint_paths, state.model_checkpoint_path]
        )
        return {_step_of(f"{name.rsplit('/', 1)[-1]}.index") or 0 for name in names}

    def _steps_there(self) -> set[int]:
        return {step for step in map(_step_of, self._names()) if step is not None}

    def _names(self) -> list[str]:
        try:
            return files.list_dir(self._directory)
        except errors.StorageNotFoundError:
            return []

    def _names_of(self, step: int) -> list[str]:
        return [name for name in self._names() if name.startswith(f"{_BASENAME}-{step}.")]

    def _prefix(self, step: int) -> str:
        return files.join(self._directory, f"{_BASENAME}-{step}")

    def _delete(self, step: int) -> None:
        # The index last: while it is there, the step is found again.
        for name in sorted(self._names_of(step), key=lambda name: name.endswith(".index")):
            files.delete_file(files.join(self._directory, name))


def _step_of(name: str) -> int | None:
    match = _INDEX.fullmatch(name)
    return None if match is None else int(match.group(1))
