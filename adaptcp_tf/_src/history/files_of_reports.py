# SPDX-License-Identifier: Apache-2.0
"""Names and lines of history files, and how a directory's history is read."""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.storage import files

HISTORY_DIR = "history"

_NAME = re.compile(r"\d{16}\.jsonl", re.ASCII)


def history_name(first_step: int) -> str:
    """Names the file whose first line is of a step.

    Example:
        >>> history_name(1200)
        'history/0000000000001200.jsonl'

    Args:
        first_step: the step.

    Returns:
        A path relative to the directory.
    """
    return f"{HISTORY_DIR}/{first_step:016d}.jsonl"


def history_files(store: CheckpointStore) -> list[str]:
    """Lists the files of a directory's history, by rising first step.

    Example:
        >>> history_files(CheckpointStore("/nowhere"))
        []

    Args:
        store: the directory.

    Returns:
        Paths relative to it.

    Raises:
        StorageError: it could not be listed.
    """
    found = store.list_dir(HISTORY_DIR)
    return [f"{HISTORY_DIR}/{name}" for name in found if _NAME.fullmatch(name)]


def encode_line(report: dict[str, Any]) -> bytes:
    r"""Writes a JSON object; numbers that JSON does not know become null.

    Example:
        >>> encode_line({"step": 1, "hot_threshold": float("inf")})
        b'{"step": 1, "hot_threshold": null}\n'

    Args:
        report: fields of a `SaveReport`.

    Returns:
        The line.
    """
    known = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in report.items()
    }
    return (json.dumps(known, allow_nan=False) + "\n").encode()


def decode_lines(data: bytes) -> list[dict[str, Any]]:
    r"""Reads lines; those that are no reports, as of a file that was cut, are left out.

    Example:
        >>> decode_lines(b'{"step": 1, "wall_time": 2.0}\n{"step": 2, "wa')
        [{'step': 1, 'wall_time': 2.0}]
    """
    reports = []
    for line in data.splitlines():
        try:
            report = json.loads(line)
            step, wall_time = report["step"], report["wall_time"]
        except (ValueError, KeyError, TypeError):
            continue
        if type(step) is int and type(wall_time) in (int, float):
            reports.append(report)
    return reports


def read_history(directory: files.PathLike) -> list[dict[str, Any]]:
    """Reads what became of the checkpoints of a directory, those among them that are deleted.

    When training went on from an older checkpoint, what it had saved after that one is left out.

    Example:
        >>> read_history("/nowhere")
        []

    Args:
        directory: a path or URI.

    Returns:
        One dict a checkpoint, by rising step, with the fields of `SaveReport`, None where they are
        not finite; empty when the directory has no history.

    Raises:
        StorageError: it could not be read.
    """
    store = CheckpointStore(directory)
    reports: list[dict[str, Any]] = []
    for name in history_files(store):
        with contextlib.suppress(errors.StorageNotFoundError):  # deleted meanwhile
            reports += decode_lines(files.read_bytes(store.path(name)))
    kept: list[dict[str, Any]] = []
    for report in sorted(reports, key=lambda report: (report["wall_time"], report["step"])):
        while kept and kept[-1]["step"] >= report["step"]:
            kept.pop()
        kept.append(report)
    return kept


def report_of(directory: files.PathLike, step: int) -> dict[str, Any] | None:
    """Reads what became of one checkpoint.

    Returns:
        The fields of its `SaveReport`; None when the history does not have it.
    """
    return next((one for one in read_history(directory) if one["step"] == step), None)
