# SPDX-License-Identifier: Apache-2.0
"""Loads rows of a checkpoint into a session that does not save: to evaluate, or to start from."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint import CheckpointOptions
from adaptcp_tf._src.checkpoint.dense import DenseSnapshot, DenseVariables
from adaptcp_tf._src.checkpoint.restoring import (
    RestoreReport,
    Selection,
    check_checkpoint,
    find_manifest,
    load_checkpoint,
)
from adaptcp_tf._src.manifest import Tiers
from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.tables import GraphTables, TableGroup

logger = logging.getLogger("adaptcp_tf")

_OPTIONS = CheckpointOptions()


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Where a training that has no checkpoint yet gets its first rows from.

    Example:
        >>> acp.estimator.AdaptiveCheckpointHook(
        ...     "/data/day2",
        ...     save_steps=100,
        ...     warm_start=acp.estimator.WarmStart("/data/day1", groups=["user"]),
        ... )

    Attributes:
        directory: the checkpoints of the other training.
        step: which of them; None takes the newest.
        groups: names of the TFRA variables to load; None takes all. The others start empty.
        slots: whether the optimizer's slots are loaded too; otherwise they start with their initial
            value.
        dense: whether the other variables are loaded too, which must then be the same. The global
            step starts at 0 all the same.
        local_dir: the SSD buffer of the other training, if it had one.
    """

    directory: str
    step: int | None = None
    groups: Sequence[str] | None = None
    slots: bool = False
    dense: bool = False
    local_dir: str | None = None

    def load(self, groups: Sequence[TableGroup], variables: DenseVariables) -> RestoreReport:
        """Loads it; afterwards the next checkpoint must be a base.

        Args:
            groups: the tables to load into.
            variables: the dense variables.

        Raises:
            As `CheckpointManager.restore` does.
        """
        selection = Selection(
            None if self.groups is None else tuple(self.groups), self.slots, self.dense
        )
        return _load(Tiers(self.directory, self.local_dir), self.step, groups, variables, selection)


class RestoreHook(tf.compat.v1.train.SessionRunHook):
    """Gives the tables of a graph that evaluates or predicts their rows.

    They are those of the checkpoint that TensorFlow restored the other variables from: of the same
    step.

    Example:
        >>> estimator.evaluate(input_fn, hooks=[acp.estimator.RestoreHook("/data/run1")])

    Args:
        directory: that of the `AdaptiveCheckpointHook` of the training.
        local_dir: its SSD buffer, if it has one and this is the same machine.
    """

    def __init__(self, directory: str, *, local_dir: str | None = None):
        self._tiers = Tiers(directory, local_dir)
        self._tables: GraphTables | None = None
        self._step: tf.Tensor | None = None
        self.restored: RestoreReport | None = None

    def begin(self) -> None:
        """Takes the tables out of TensorFlow's own restore.

        Raises:
            InvalidOptionError: the graph has no global step, or tables that are not tracked.
        """
        graph = tf.compat.v1.get_default_graph()
        self._step = global_step_of(graph)
        self._tables = GraphTables(graph)
        self._tables.leave_savers()

    def after_create_session(self, session: tf.compat.v1.Session, coord: object) -> None:
        """Loads the rows.

        Raises:
            CheckpointNotFoundError: there are none of this step.
            As `CheckpointManager.restore` does, otherwise.
        """
        step = int(session.run(self._step))
        if step == 0 and self._tiers.latest_step() is None:
            logger.warning("nothing was trained yet: the tables stay empty")
            return
        groups = self._tables.open(session)
        try:
            with eagerly():
                self.restored = _load(
                    self._tiers, step, groups, _NoVariables(), Selection(slots=False, dense=False)
                )
        finally:
            for group in groups:
                group.release()


def global_step_of(graph: tf.Graph) -> tf.Tensor:
    """Returns what reads the global step of a graph that is not finalized.

    Raises:
        InvalidOptionError: it has none.
    """
    step = tf.compat.v1.train.get_global_step(graph)
    if step is None:
        raise errors.InvalidOptionError(
            "The graph has no global step, which tells checkpoints apart. Expected: one, made with "
            "tf.compat.v1.train.get_or_create_global_step(), that the training op counts up."
        )
    return tf.identity(step.read_value())


def _load(
    tiers: Tiers,
    step: int | None,
    groups: Sequence[TableGroup],
    variables: DenseVariables,
    selection: Selection,
) -> RestoreReport:
    manifest = find_manifest(tiers, step)
    global_step = tf.compat.v1.GraphKeys.GLOBAL_STEP
    if manifest.dense is not None:
        kept = tuple(v for v in manifest.dense.variables if v.key != global_step)
        manifest = dataclasses.replace(
            manifest, dense=dataclasses.replace(manifest.dense, variables=kept)
        )
        variables = _Without(variables, global_step)
    paths = check_checkpoint(tiers, manifest, groups, variables, selection)
    return load_checkpoint(
        paths,
        manifest,
        groups,
        variables,
        directory=tiers.directory,
        selection=selection,
        num_threads=_OPTIONS.restore_threads,
        read_threads=_OPTIONS.read_threads,
        progress=False,
    )


class _NoVariables:
    """No dense variables."""

    specs: Mapping[str, tf.TensorSpec] = {}

    def snapshot(self) -> DenseSnapshot:
        return DenseSnapshot({})

    def assign(self, values: Mapping[str, tf.Tensor]) -> None:
        del values


class _Without:
    """Dense variables without one of them."""

    def __init__(self, variables: DenseVariables, key: str):
        self._variables = variables
        self._key = key

    @property
    def specs(self) -> Mapping[str, tf.TensorSpec]:
        return {key: spec for key, spec in self._variables.specs.items() if key != self._key}

    def snapshot(self) -> DenseSnapshot:
        return self._variables.snapshot()

    def assign(self, values: Mapping[str, tf.Tensor]) -> None:
        self._variables.assign(values)
