# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of a delta, block by block, in each of the formats that it may have."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.importing.from_tfra import read_numbers
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.arrow import pyarrow
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.tables.delta_listing import DeltaTable

# Keys [n], and values [n, dim] unless there are keys alone.
_Blocks = Iterator[tuple[np.ndarray, "np.ndarray | None"]]

_BLOCK_ROWS = 65536


def read_blocks(row_format: str, directory: str, table: DeltaTable, *, removed: bool) -> _Blocks:
    """Yields the changes of a TFRA variable.

    Args:
        row_format: "npz", "parquet" or "tfra".
        directory: of the delta.
        table: which variable.
        removed: whether the keys that were removed, or the rows that are new or changed.

    Raises:
        CorruptCheckpointError: a file is damaged.
        InvalidOptionError: pyarrow is needed and missing.
        StorageError: a file could not be read.
    """
    reader = {"npz": _read_npz, "parquet": _read_parquet, "tfra": _read_raw}[row_format]
    dtype = tf.as_dtype(table.dtype).as_numpy_dtype
    found = table.removed_files if removed else table.files
    for keys, values in reader(directory, table, [file.name for file in found]):
        # bfloat16 is stored as float32.
        yield keys, None if values is None else values.astype(dtype, copy=False)


def _read_npz(directory: str, table: DeltaTable, names: list[str]) -> _Blocks:
    del table
    for name in names:
        path = files.join(directory, name)
        with _damage(path), np.load(io.BytesIO(files.read_bytes(path))) as arrays:
            keys = arrays["keys"]
            if "key_offsets" in arrays:
                ends = arrays["key_offsets"]
                texts = [keys[a:b].tobytes() for a, b in zip(ends, ends[1:])]
                keys = np.array(texts, object)
            block = keys, arrays.get("values")
        yield block


def _read_parquet(directory: str, table: DeltaTable, names: list[str]) -> _Blocks:
    arrow = pyarrow()
    for name in names:
        path = files.join(directory, name)
        source = path if files.is_local(path) else arrow.BufferReader(files.read_bytes(path))
        with _damage(path), translated("read", path), arrow.parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(_BLOCK_ROWS):
                keys = batch.column("key").to_numpy(zero_copy_only=False)
                values = None
                if "values" in batch.schema.names:
                    flat = batch.column("values").flatten().to_numpy(zero_copy_only=False)
                    values = flat.reshape(-1, table.dim)
                yield keys, values


def _read_raw(directory: str, table: DeltaTable, names: list[str]) -> _Blocks:
    key_dtype, dtype = tf.as_dtype(table.key_dtype), tf.as_dtype(table.dtype)
    if not names:
        return
    keys_path = files.join(directory, names[0])
    values_path = files.join(directory, names[1]) if len(names) > 1 else None
    row_bytes = dtype.size * table.dim
    total = files.size(keys_path) // key_dtype.size
    for first in range(0, total, _BLOCK_ROWS):
        n = min(_BLOCK_ROWS, total - first)
        keys = read_numbers(keys_path, first * key_dtype.size, n * key_dtype.size, key_dtype)
        values = None
        if values_path is not None:
            values = read_numbers(values_path, first * row_bytes, n * row_bytes, dtype)
            values = values.reshape(n, -1)
        yield keys, values


@contextlib.contextmanager
def _damage(path: str) -> Iterator[None]:
    """Turns what NumPy and pyarrow say of a damaged file into an error that names it."""
    try:
        yield
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, errors.AdaptCPError):
            raise
        raise errors.CorruptCheckpointError(
            f"{path!r} is damaged. Received: {error}. Copy the delta again.", path=path
        ) from error
