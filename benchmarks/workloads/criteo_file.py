# SPDX-License-Identifier: Apache-2.0
"""Reads the Criteo click logs (40 tab-separated columns), or makes a file of the same format."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from .criteo_stream import (
    FEATURE_SHIFT,
    NUM_CATEGORICAL,
    NUM_DENSE,
    Batch,
    CriteoStream,
    feature_id,
)

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_NAME = "criteo_kaggle_8k.tsv"
SAMPLE_LINES = 8000
GENERATED_FILE = ROOT / ".cache" / "criteo_generated_8k.tsv"

_COLUMNS = 1 + NUM_DENSE + NUM_CATEGORICAL
# Shares of empty values of I1..I13 and C1..C26 in the real log.
_DENSE_EMPTY = (0.45, 0.0, 0.2, 0.2, 0.05, 0.25, 0.05, 0.0, 0.05, 0.45, 0.05, 0.78, 0.2)
_CATEGORICAL_EMPTY = (
    *(0.0, 0.0, 0.03, 0.03, 0.0, 0.13, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03, 0.0),
    *(0.0, 0.0, 0.03, 0.0, 0.0, 0.45, 0.45, 0.03, 0.82, 0.0, 0.03, 0.45, 0.45),
)


def locate() -> Path:
    """The Criteo sample in `ADAPTCP_DATA` (default `../shared/data` beside the project), or a made one.

    Where the sample is absent a file of the same format is generated once and this is said on
    stderr.
    """
    folder = Path(os.environ.get("ADAPTCP_DATA", ROOT.parent / "shared" / "data"))
    sample = folder / SAMPLE_NAME
    if sample.exists():
        return sample
    if not GENERATED_FILE.exists():
        generate(GENERATED_FILE, SAMPLE_LINES)
    print(
        f"Criteo sample not found at {sample} (set ADAPTCP_DATA to its folder): using "
        f"{GENERATED_FILE}, generated in the same format.",
        file=sys.stderr,
    )
    return GENERATED_FILE


def read(path: Path | str, limit: int | None = None) -> Batch:
    """Reads the first `limit` lines (all if None) as one batch.

    Integers become `log(1 + x)`, with missing and negative ones as 0. Categories become ids as in
    `criteo_stream.feature_id`; a missing category is a value of its own.

    Returns:
      ids `[n, 26]` int64, dense `[n, 13]` float32, labels `[n, 1]` float32.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if a line is malformed, naming file and line; or if there are fewer than `limit`.
    """
    rows = []
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, start=1):
            if limit is not None and len(rows) == limit:
                break
            rows.append(_parse_line(line, f"{path}:{number}"))
    if limit is not None and len(rows) < limit:
        raise ValueError(f"{path} has too few lines. Received: {len(rows)}. Expected: {limit}.")
    labels, counts, values = (np.array(column) for column in zip(*rows))
    ids = [feature_id(f + 1, values[:, f]) for f in range(NUM_CATEGORICAL)]
    dense = np.log1p(np.maximum(counts, 0).astype(np.float32))
    return Batch(np.stack(ids, axis=1), dense, labels.astype(np.float32)[:, None])


def _parse_line(line: str, where: str) -> tuple[int, list[int], list[int]]:
    fields = line.rstrip("\n").split("\t")
    if len(fields) != _COLUMNS:
        raise ValueError(
            f"{where} is not a Criteo line. Received: {len(fields)} columns. Expected: {_COLUMNS}."
        )
    try:
        counts = [int(field) if field else 0 for field in fields[1 : 1 + NUM_DENSE]]
        # 0 is the missing value, so present ones start at 1.
        values = [int(field, 16) + 1 if field else 0 for field in fields[1 + NUM_DENSE :]]
        return int(fields[0]), counts, values
    except ValueError as error:
        raise ValueError(f"{where} is not a Criteo line: {error}.") from error


def generate(path: Path, lines: int, seed: int = 0) -> None:
    """Writes a Criteo-like file: same columns, empty and negative integers, empty categories.

    The file appears under its name only when it is complete.

    Args:
      path: where to write; parents are made.
      lines: number of samples.
      seed: files of equal seed and length are equal.
    """
    samples = CriteoStream(batch_size=lines, seed=seed).batch(0)
    rng = np.random.default_rng((seed, lines))
    counts = np.expm1(samples.dense).round().astype(np.int64)
    counts[:, 1] -= rng.integers(0, 3, lines)  # I2 goes down to -2 in the real log
    # The upper bits of the hashed ids, since the lower bits of a product vary less.
    values = (samples.ids >> (FEATURE_SHIFT - 32)) & 0xFFFFFFFF
    no_count = rng.random(counts.shape) < np.array(_DENSE_EMPTY)
    no_value = rng.random(values.shape) < np.array(_CATEGORICAL_EMPTY)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with open(partial, "w", encoding="ascii") as file:
        for row in range(lines):
            fields = [f"{int(samples.labels[row, 0])}"]
            fields += ["" if no else f"{n}" for n, no in zip(counts[row], no_count[row])]
            fields += ["" if no else f"{n:08x}" for n, no in zip(values[row], no_value[row])]
            file.write("\t".join(fields) + "\n")
    os.replace(partial, path)
