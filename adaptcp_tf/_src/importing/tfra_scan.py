# SPDX-License-Identifier: Apache-2.0
"""Finds TFRA's files of the tables of a model, and refuses what cannot be loaded."""

from __future__ import annotations

import dataclasses
import re

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.group import PARAMETER, AttachedTable
from adaptcp_tf._src.tables.tfra_listing import LISTING_NAME, ListedTable, decode_listing
from adaptcp_tf._src.tables.tfra_names import file_prefix, file_stem, variable_name

# Tables that were saved by themselves have no rank.
_AFTER_PREFIX = re.compile(
    r"\d+of(?P<shards>\d+)(_rank\d+_size(?P<size>\d+))?-(keys|values)", re.ASCII
)


@dataclasses.dataclass(frozen=True)
class ShardFiles:
    """The two files of a shard.

    Attributes:
        keys_path: the file of keys.
        values_path: the file of rows in the same order.
        rows: how many.
        key_bytes: of one key.
        row_bytes: of one row.
    """

    keys_path: str
    values_path: str
    rows: int
    key_bytes: int
    row_bytes: int


def scan(directory: str, group: TableGroup, *, slots: bool) -> dict[str, list[ShardFiles]]:
    """Finds the files of a group's tables and checks their sizes.

    Args:
        directory: where the files are.
        group: the group.
        slots: whether the files of slots are needed.

    Returns:
        The files of every shard, by the table's name, the parameter first.

    Raises:
        CorruptCheckpointError: a file is missing, or its size cannot be right.
        IncompatibleModelError: a table has no files, or they have other rows or keys.
        InvalidOptionError: keys are strings.
        StorageError: the directory could not be read.
    """
    if group.key_dtype == tf.string:
        raise errors.InvalidOptionError(
            f"TFRA variable {group.name!r} cannot be imported from TFRA's files. Received: string "
            "keys, which TFRA writes as raw structs and cannot read back. Expected: int64 or int32 keys."
        )
    there = _Directory(directory)
    return {
        attached.name: _scan_table(there, _layout_of(group, attached))
        for attached in group.shards[0].tables
        if slots or attached.name == PARAMETER
    }


@dataclasses.dataclass(frozen=True)
class _Layout:
    """What the model has: TFRA's name of a variable, and its rows."""

    variable: str
    key_dtype: tf.DType
    dtype: tf.DType
    dim: int

    @property
    def row_bytes(self) -> int:
        return self.dtype.size * self.dim

    def __str__(self) -> str:
        return f"{self.key_dtype.name} keys, rows of {self.dim} {self.dtype.name}"


def _layout_of(group: TableGroup, attached: AttachedTable) -> _Layout:
    table = attached.table
    return _Layout(
        variable_name(group.name, attached.name),
        group.key_dtype,
        table._value_dtype,
        int(table._default_value.shape[0]),
    )


class _Directory:
    """The names in a directory, and what an export of ours says of them."""

    def __init__(self, path: str):
        self.path = path
        self.names = frozenset(files.list_dir(path))
        self.listed: dict[str, ListedTable] = {}
        if LISTING_NAME in self.names:
            listing = files.join(path, LISTING_NAME)
            self.listed = decode_listing(files.read_bytes(listing), listing)

    def size(self, name: str, expected: str) -> int:
        """Returns the size of a file.

        Raises:
            CorruptCheckpointError: it is missing.
        """
        path = files.join(self.path, name)
        if name not in self.names:
            raise errors.CorruptCheckpointError(
                f"{path!r} is missing. Received: no file. Expected: {expected}. Copy all files of "
                "the save.",
                path=path,
                expected=expected,
            )
        return files.size(path)


def _scan_table(there: _Directory, layout: _Layout) -> list[ShardFiles]:
    stems = _stems(there, layout)
    listed = there.listed.get(layout.variable)
    if listed is not None:
        saved = _Layout(
            listed.variable, tf.as_dtype(listed.key_dtype), tf.as_dtype(listed.dtype), listed.dim
        )
        if saved != layout:
            raise _other_rows(layout, str(saved))
    parts = [_sized(there, stem, layout) for stem in stems]
    if listed is not None and tuple(part.rows for part in parts) != listed.rows:
        raise errors.CorruptCheckpointError(
            f"The files of {layout.variable!r} in {there.path!r} are not those that were exported. "
            f"Received: {[part.rows for part in parts]} rows in its shards. Expected: "
            f"{list(listed.rows)}. Export again.",
            path=there.path,
            expected=listed.rows,
            received=tuple(part.rows for part in parts),
        )
    return parts


def _stems(there: _Directory, layout: _Layout) -> list[str]:
    """Names of a variable's pairs of files, without `-keys` and `-values`, of all its shards."""
    prefix = file_prefix(layout.variable)
    ends = [name[len(prefix) :] for name in there.names if name.startswith(prefix)]
    matches = [match for match in map(_AFTER_PREFIX.fullmatch, ends) if match]
    saves = sorted({(int(match["shards"]), int(match["size"] or 0)) for match in matches})
    if not saves:
        raise errors.IncompatibleModelError(
            f"TFRA variable {layout.variable!r} has no files in {there.path!r}. Received: none whose "
            f"name begins with {prefix!r}. Expected: {file_stem(layout.variable, 0, 1)}-keys and "
            "-values, or those of several shards. Give the layers the names they had, or leave out "
            "what is not there with groups= or slots=False."
        )
    if len(saves) > 1:
        raise errors.CorruptCheckpointError(
            f"{there.path!r} holds several saves of {layout.variable!r}. Received: files of "
            f"{' and '.join(_describe(*save) for save in saves)}. Expected: those of one. Move the "
            "others away.",
            path=there.path,
            received=saves,
        )
    ((shards, size),) = saves
    ranks = [f"_rank{rank}_size{size}" for rank in range(size)] or [""]
    return [f"{prefix}{i + 1}of{shards}{rank}" for rank in ranks for i in range(shards)]


def _describe(shards: int, size: int) -> str:
    return f"{shards} shards" + (f" in {size} processes" if size else "")


def _sized(there: _Directory, stem: str, layout: _Layout) -> ShardFiles:
    key_bytes = layout.key_dtype.size
    keys_name, values_name = f"{stem}-keys", f"{stem}-values"
    keys_size = there.size(keys_name, f"the keys of {layout.variable!r}")
    values_size = there.size(values_name, f"the rows of {layout.variable!r}")
    keys_path, values_path = (files.join(there.path, name) for name in (keys_name, values_name))
    rows = keys_size // key_bytes
    if keys_size % key_bytes:
        raise _wrong_size(keys_path, keys_size, f"a multiple of {key_bytes}: {layout}")
    if values_size != rows * layout.row_bytes:
        dim, rest = divmod(values_size, rows * layout.dtype.size) if rows else (0, 1)
        if rest == 0 and dim > 0:
            found = f"{values_path!r} with {dim} {layout.dtype.name} for each of {rows} keys"
            raise _other_rows(layout, f"{found}, or of another dtype, or cut")
        expected = f"{rows * layout.row_bytes}: {rows} {layout}, as {keys_path!r} has"
        raise _wrong_size(values_path, values_size, expected)
    return ShardFiles(keys_path, values_path, rows, key_bytes, layout.row_bytes)


def _wrong_size(path: str, received: int, expected: str) -> errors.CorruptCheckpointError:
    return errors.CorruptCheckpointError(
        f"{path!r} has the wrong size. Received: {received} bytes. Expected: {expected}. It was cut, "
        "or is another table's.",
        path=path,
        expected=expected,
        received=received,
    )


def _other_rows(layout: _Layout, received: str) -> errors.IncompatibleModelError:
    return errors.IncompatibleModelError(
        f"The files of {layout.variable!r} have other rows than the model. Received: {received}. "
        f"Expected: {layout}."
    )
