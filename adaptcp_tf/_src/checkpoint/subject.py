# SPDX-License-Identifier: Apache-2.0
"""What a manager checkpoints: a model and its optimizer, or the graph of a TF1 session."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.building import (
    build_optimizer,
    defer_until_built,
    has_all_variables,
    is_built,
)
from adaptcp_tf._src.checkpoint.dense import DenseVariables, dense_variables
from adaptcp_tf._src.tables import TableGroup, discover_groups, unwatch, watch


class Subject(Protocol):
    """Tables and dense variables that one manager saves and restores together."""

    def watch(self) -> Callable[[], None]:
        """Has tables made from now on tracked from their first update on; returns what ends that."""

    def is_built(self) -> bool:
        """Whether all that a restore fills is there, slots aside."""

    def when_built(self, action: Callable[[], Any]) -> None:
        """Calls `action` as soon as `is_built`, before anything is computed."""

    def has_all_variables(self) -> bool:
        """Whether no variable can come any more; False when nobody knows."""

    def make_slots(self) -> None:
        """Makes the optimizer's slots, once the rest is built."""

    def groups(self) -> list[TableGroup]:
        """The table groups that are there by now, ordered by name."""

    def variables(self) -> DenseVariables:
        """The dense variables that are there by now."""

    def save_ended(self, all_steps: Callable[[], list[int]]) -> None:
        """A save has ended, well or not; on the manager's background thread.

        Called again when retention has deleted what was too old.

        Args:
            all_steps: tells the steps that can be restored.

        Raises:
            StorageError: what the subject had to write could not be written.
        """


class ModelSubject:
    """A model, an optimizer and TFRA variables that execute eagerly; any of them.

    Raises:
        InvalidOptionError: there is none of them.
    """

    def __init__(self, model: Any, optimizer: Any, variables: Iterable[Any]):
        self._model = model
        self._optimizer = optimizer
        self._variables = list(variables)
        if model is None and optimizer is None and not self._variables:
            raise errors.InvalidOptionError(
                "There is nothing to save. Received: no model, optimizer or variables. Expected: "
                "at least one of them."
            )

    def watch(self) -> Callable[[], None]:
        """Watches for tables of the model."""
        return functools.partial(unwatch, watch(self._model, self._optimizer))

    def is_built(self) -> bool:
        """Whether the model has made its variables."""
        return self._model is None or is_built(self._model)

    def when_built(self, action: Callable[[], Any]) -> None:
        """Calls `action` inside the model's first call."""
        defer_until_built(self._model, action)

    def has_all_variables(self) -> bool:
        """Whether the model is one whose variables come all at once."""
        return has_all_variables(self._model, self._optimizer)

    def make_slots(self) -> None:
        """Makes the slots of the model's trainable variables."""
        build_optimizer(self._model, self._optimizer)

    def groups(self) -> list[TableGroup]:
        """Finds the table groups, and tracks those that are new."""
        return discover_groups(self._model, self._optimizer, self._variables)

    def variables(self) -> DenseVariables:
        """Finds the dense variables."""
        return dense_variables(self._model, self._optimizer)

    def save_ended(self, all_steps: Callable[[], list[int]]) -> None:
        """Nothing else depends on what was saved."""
