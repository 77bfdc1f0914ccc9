# SPDX-License-Identifier: Apache-2.0
"""Writes rows, block by block, in one of the formats that others read."""

from __future__ import annotations

import io
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.storage import checksums, files
from adaptcp_tf._src.storage.arrow import pyarrow
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.storage.trees import append
from adaptcp_tf._src.tables.delta_listing import RowFile

FORMATS = ("npz", "parquet", "tfra")


class Writer(Protocol):
    """Writes one sequence of rows, or of keys alone."""

    def write(self, keys: tf.Tensor, values: tf.Tensor | None) -> None:
        """Writes a block: keys [n], and values [n, dim] unless there are keys alone."""

    def close(self) -> list[RowFile]:
        """Returns what was written; nothing when there were no rows."""


def new_writer(row_format: str, directory: str, stem: str) -> Writer:
    """Makes a writer.

    Args:
        row_format: one of `FORMATS`.
        directory: where; local.
        stem: how the names of its files begin.

    Raises:
        InvalidOptionError: there is no such format, or pyarrow is missing.
    """
    writers = {"npz": _NpzWriter, "parquet": _ParquetWriter, "tfra": _RawWriter}
    if row_format not in writers:
        raise errors.InvalidOptionError(
            f"Invalid value for format. Received: {row_format!r}. Expected: one of "
            f"{', '.join(FORMATS)}."
        )
    return writers[row_format](directory, stem)


def plain(values: tf.Tensor) -> np.ndarray:
    """Values [n, dim] in a dtype that NumPy and Parquet know; bfloat16 becomes float32, exactly."""
    array = values.numpy()
    return array.astype(np.float32) if values.dtype == tf.bfloat16 else array


class _NpzWriter:
    """A file for each block, so that neither writer nor reader holds more."""

    def __init__(self, directory: str, stem: str):
        self._directory = directory
        self._stem = stem
        self._written: list[RowFile] = []

    def write(self, keys: tf.Tensor, values: tf.Tensor | None) -> None:
        arrays = _npz_keys(keys)
        if values is not None:
            arrays["values"] = plain(values)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        data = buffer.getvalue()
        name = f"{self._stem}-{len(self._written):05}.npz"
        files.write_durably(files.join(self._directory, name), data)
        self._written.append(RowFile(name, len(keys), len(data), checksums.of_bytes(data)))

    def close(self) -> list[RowFile]:
        return self._written


def _npz_keys(keys: tf.Tensor) -> dict[str, np.ndarray]:
    if keys.dtype != tf.string:
        return {"keys": keys.numpy()}
    # NumPy's own strings lose zero bytes at their ends.
    texts = keys.numpy().tolist()
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return {"keys": np.frombuffer(b"".join(texts), np.uint8), "key_offsets": offsets}


class _ParquetWriter:
    """One file, a row group for each block."""

    def __init__(self, directory: str, stem: str):
        self._arrow = pyarrow()
        self._name = f"{stem}.parquet"
        self._path = files.join(directory, self._name)
        self._file: Any = None
        self._rows = 0

    def write(self, keys: tf.Tensor, values: tf.Tensor | None) -> None:
        arrow = self._arrow
        columns = {
            "key": arrow.array(keys.numpy(), arrow.binary() if keys.dtype == tf.string else None)
        }
        if values is not None:
            array = plain(values)
            flat = arrow.array(array.reshape(-1))
            columns["values"] = arrow.FixedSizeListArray.from_arrays(flat, array.shape[1])
        table = arrow.table(columns)
        with translated("write", self._path):
            if self._file is None:
                self._file = arrow.parquet.ParquetWriter(self._path, table.schema)
            self._file.write_table(table)
        self._rows += len(keys)

    def close(self) -> list[RowFile]:
        if self._file is None:
            return []
        with translated("write", self._path):
            self._file.close()
        return [_written(self._path, self._name, self._rows)]


class _RawWriter:
    """TFRA's pair of files; keys alone are in one called `-removed`."""

    def __init__(self, directory: str, stem: str):
        self._directory = directory
        self._stem = stem
        self._rows: dict[str, int] = {}

    def write(self, keys: tf.Tensor, values: tf.Tensor | None) -> None:
        if values is None:
            self._append("removed", keys)
            return
        self._append("keys", keys)
        self._append("values", values)

    def close(self) -> list[RowFile]:
        return [
            _written(files.join(self._directory, name), name, rows)
            for name, rows in self._rows.items()
        ]

    def _append(self, kind: str, tensor: tf.Tensor) -> None:
        name = f"{self._stem}-{kind}"
        append(files.join(self._directory, name), tensor.numpy().tobytes())
        self._rows[name] = self._rows.get(name, 0) + len(tensor)


def _written(path: str, name: str, rows: int) -> RowFile:
    return RowFile(name, rows, files.size(path), checksums.of_file(path))
