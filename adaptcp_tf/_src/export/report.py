# SPDX-License-Identifier: Apache-2.0
"""What exports tell of themselves."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class RowsExport:
    """What was exported.

    Attributes:
        step: of the checkpoint.
        checkpoint: what tells it from others, also from one of the same step.
        directory: where the files are.
        rows: of all TFRA variables, slots not counted.
        bytes: of all files.
        files: how many.
        exact: whether they hold every bit of what was trained, or the checkpoint was quantised.
        seconds: how long it took.
    """

    step: int
    checkpoint: str
    directory: str
    rows: int
    bytes: int
    files: int
    exact: bool
    seconds: float


@dataclasses.dataclass(frozen=True)
class SavedModelExport:
    """What was exported as a SavedModel.

    Attributes:
        step: of the checkpoint; None for a model as it was.
        checkpoint: what tells it from others; None for a model as it was.
        directory: where the SavedModel is.
        rows: of all its tables.
        bytes: of its variables, rows included.
        exact: whether it holds every bit of what was trained, or the checkpoint was quantised.
        seconds: how long it took.
    """

    step: int | None
    checkpoint: str | None
    directory: str
    rows: int
    bytes: int
    exact: bool
    seconds: float
