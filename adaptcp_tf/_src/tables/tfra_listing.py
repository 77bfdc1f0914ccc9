# SPDX-License-Identifier: Apache-2.0
"""The file that an export adds to TFRA's: what the tables are, written last."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors

LISTING_NAME = "adaptcp-export.json"
_FORMAT = "tfra"
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class ListedTable:
    """One table of an export.

    Attributes:
        variable: TFRA's name of the variable.
        key_dtype: name of the dtype of its keys.
        dtype: name of the dtype of its values.
        dim: values a row.
        rows: rows in each shard.
    """

    variable: str
    key_dtype: str
    dtype: str
    dim: int
    rows: tuple[int, ...]


def encode_listing(step: int, exact: bool, tables: Sequence[ListedTable]) -> bytes:
    """Returns the content of the file."""
    listing = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "step": step,
        "exact": exact,
        "tables": [dataclasses.asdict(table) for table in tables],
    }
    return (json.dumps(listing, indent=1, sort_keys=True) + "\n").encode()


def decode_listing(data: bytes, path: str) -> dict[str, ListedTable]:
    """Returns the tables by variable.

    Raises:
        CorruptCheckpointError: if this is not such a file.
    """
    try:
        listing = json.loads(data)
        version = (listing["format"], listing["format_version"])
        tables = [_decode_table(table) for table in listing["tables"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, "a listing of an export", repr(error)) from error
    if version != (_FORMAT, _VERSION):
        raise _damaged(path, f"format {_FORMAT!r}, version {_VERSION}", version)
    return {table.variable: table for table in tables}


def _decode_table(fields: dict[str, Any]) -> ListedTable:
    for field in ("key_dtype", "dtype"):
        tf.as_dtype(fields[field])
    return ListedTable(**{**fields, "rows": tuple(fields["rows"])})


def _damaged(path: str, expected: str, received: Any) -> errors.CorruptCheckpointError:
    return errors.CorruptCheckpointError(
        f"{path!r} cannot be used. Expected: {expected}. Received: {received}. Export again.",
        path=path,
        expected=expected,
        received=received,
    )
