# SPDX-License-Identifier: Apache-2.0
"""Exports a model for serving whenever an epoch was the best so far."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from collections.abc import Mapping
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.export.saved_model import MODEL_FILE, saved_model
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.trees import delete_tree

logger = logging.getLogger("adaptcp_tf")

# In each export: what was monitored, and its value.
_RECORD = "assets.extra/adaptcp-best.json"
_MODES = ("min", "max")


class ExportBest:
    """Tells `AdaptiveCheckpoint` to export the model when an epoch was the best so far.

    After each epoch in which the monitored value is better than in all exports that are there, also
    those of earlier runs, the model is written as `acp.export.saved_model` does, to a subdirectory
    whose name is the number of batches trained: what TensorFlow Serving takes for a version. An export
    that fails is told as a warning, and training goes on.

    Example:
        >>> best = acp.keras.ExportBest("/models/ctr", monitor="val_auc", mode="max")
        >>> cb = acp.keras.AdaptiveCheckpoint("/data/run1", export_best=best)

    Args:
        directory: where the exports are kept.
        monitor: name of a value in the logs of an epoch.
        mode: whether the least or the greatest value is the best, "min" or "max".
        signatures: as for `acp.export.saved_model`.
        max_to_keep: how many exports stay, the best ones; None keeps all.

    Raises:
        InvalidOptionError: an argument is not of the right kind.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        monitor: str = "val_loss",
        mode: str = "min",
        signatures: Any = None,
        max_to_keep: int | None = 5,
    ):
        if mode not in _MODES:
            raise errors.InvalidOptionError(
                f"Invalid value for mode. Received: {mode!r}. Expected: one of {_MODES}."
            )
        if max_to_keep is not None and (
            isinstance(max_to_keep, bool) or not isinstance(max_to_keep, int) or max_to_keep < 1
        ):
            raise errors.InvalidOptionError(
                f"Invalid value for max_to_keep. Received: {max_to_keep!r}. Expected: a positive "
                "number, or None."
            )
        self._directory = files.normalize(directory)
        self._monitor = monitor
        self._sign = 1.0 if mode == "min" else -1.0
        self._signatures = signatures
        self._max_to_keep = max_to_keep

    def exports(self) -> dict[int, float]:
        """Returns step -> value of the exports that are there, the best first.

        Raises:
            StorageError: they could not be looked up.
        """
        found = {}
        names = files.list_dir(self._directory) if files.exists(self._directory) else []
        for name in names:
            if name.isdigit():
                # Others are not of this class, or not complete.
                with contextlib.suppress(errors.StorageNotFoundError, KeyError, ValueError):
                    path = files.join(self._directory, name, *_RECORD.split("/"))
                    record = json.loads(files.read_bytes(path))
                    if record["monitor"] == self._monitor and self._is_complete(name):
                        found[int(name)] = float(record["value"])
        return dict(sorted(found.items(), key=lambda export: self._sign * export[1]))

    def _is_complete(self, name: str) -> bool:
        """Whether an export was not cut off; its model comes last, and goes first."""
        return files.exists(files.join(self._directory, name, MODEL_FILE))

    def epoch_ended(self, model: Any, step: int, logs: Mapping[str, Any] | None) -> None:
        """Exports the model if it is the best so far; what fails is logged.

        Args:
            model: the model.
            step: batches trained.
            logs: of the epoch.
        """
        value = (logs or {}).get(self._monitor)
        if value is None or not math.isfinite(float(value)):
            logger.warning(
                "nothing exported at step %d: %r is %s, the logs have %s",
                step,
                self._monitor,
                value,
                ", ".join(logs or {}) or "nothing",
            )
            return
        try:
            self._export_if_best(model, step, float(value))
        except Exception as error:
            # TensorFlow refuses models that it cannot export with errors of any kind.
            logger.warning("nothing exported at step %d: %s", step, error)

    def _export_if_best(self, model: Any, step: int, value: float) -> None:
        found = self.exports()
        if step in found or any(self._sign * value >= self._sign * v for v in found.values()):
            return
        target = files.join(self._directory, str(step))
        # The record goes first, so what has none is somebody else's.
        cut_off = files.exists(files.join(target, *_RECORD.split("/")))
        if cut_off and not self._is_complete(str(step)):
            delete_tree(target)
        record = json.dumps({"monitor": self._monitor, "value": value, "step": step}).encode()
        saved_model(
            model,
            export_dir=target,
            signatures=self._signatures,
            extra_files={_RECORD: record},
        )
        if self._max_to_keep is not None:
            for old in list(self.exports())[self._max_to_keep :]:
                path = files.join(self._directory, str(old))
                files.delete_file(files.join(path, MODEL_FILE))
                delete_tree(path)
