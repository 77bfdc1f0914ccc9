# SPDX-License-Identifier: Apache-2.0
"""The file that tells what a delta is: from which checkpoint to which, and its files of rows."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.storage import checksums

DELTA_NAME = "adaptcp-delta.json"
_FORMAT = "delta"
_VERSION = 2
_CHECKSUM = "checksum"


@dataclasses.dataclass(frozen=True)
class RowFile:
    """A file of rows, or of keys alone.

    Attributes:
        name: in the directory.
        rows: how many are in it.
        bytes: its size.
        checksum: of all its bytes.
    """

    name: str
    rows: int
    bytes: int
    checksum: str


@dataclasses.dataclass(frozen=True)
class DeltaTable:
    """The changes of one TFRA variable.

    Attributes:
        variable: its name.
        key_dtype: name of the dtype of its keys.
        dtype: name of the dtype of its values.
        dim: values a row.
        files: rows that are new or changed.
        removed_files: keys that were removed.
    """

    variable: str
    key_dtype: str
    dtype: str
    dim: int
    files: tuple[RowFile, ...]
    removed_files: tuple[RowFile, ...]

    @property
    def rows(self) -> int:
        """How many rows are new or changed."""
        # Two files share the rows in TFRA's format.
        return sum(file.rows for file in self.files if not file.name.endswith("-values"))

    @property
    def removed(self) -> int:
        """How many keys were removed."""
        return sum(file.rows for file in self.removed_files)


@dataclasses.dataclass(frozen=True)
class DeltaListing:
    """A delta.

    Attributes:
        row_format: "npz", "parquet" or "tfra".
        from_step: of the checkpoint it starts from.
        to_step: of the checkpoint it leads to.
        from_checkpoint: what tells that one from others of the same step.
        to_checkpoint: likewise.
        exact: whether rows have every bit of what was trained.
        tables: the TFRA variables.
    """

    row_format: str
    from_step: int
    to_step: int
    from_checkpoint: str
    to_checkpoint: str
    exact: bool
    tables: tuple[DeltaTable, ...]


def encode_delta(listing: DeltaListing) -> bytes:
    """Returns the content of the file."""
    content = {"format": _FORMAT, "format_version": _VERSION, **dataclasses.asdict(listing)}
    content[_CHECKSUM] = checksums.of_json(content)
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def decode_delta(data: bytes, path: str) -> DeltaListing:
    """Reads the content of the file.

    Raises:
        CorruptCheckpointError: if this is not such a file.
    """
    try:
        content = json.loads(data)
        checksum = content.pop(_CHECKSUM, None)
        actual = checksums.of_json(content)
        version = (content.pop("format"), content.pop("format_version"))
        if version != (_FORMAT, _VERSION):
            raise ValueError(f"format {version[0]!r}, version {version[1]}")
        if checksum != actual:
            raise ValueError(f"checksum {checksum}, of other content than this, which has {actual}")
        tables = tuple(_decode_table(table) for table in content.pop("tables"))
        return DeltaListing(**content, tables=tables)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.CorruptCheckpointError(
            f"{path!r} cannot be used. Expected: the listing of a delta, version {_VERSION}. "
            f"Received: {error!r}. Export the delta again.",
            path=path,
        ) from error


def _decode_table(fields: dict[str, Any]) -> DeltaTable:
    def decoded(kind: str) -> tuple[RowFile, ...]:
        return tuple(RowFile(**file) for file in fields[kind])

    return DeltaTable(
        **{**fields, "files": decoded("files"), "removed_files": decoded("removed_files")}
    )
