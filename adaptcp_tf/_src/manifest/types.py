# SPDX-License-Identifier: Apache-2.0
"""What a manifest says: plain immutable records, always made with keyword arguments."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

FORMAT_VERSION = 1

BASE = "base"
INCREMENT = "increment"
DIFFERENTIAL = "differential"
DELTA = "delta"

RAW = "raw"
ENCODINGS = (RAW, "int2", "int3", "int4", "int8", "float16", "bfloat16")

# Python 3.9 has no keyword-only dataclasses; there the same calls work without the check.
_KEYWORD_ONLY = {"kw_only": True} if sys.version_info >= (3, 10) else {}
_record = dataclasses.dataclass(frozen=True, **_KEYWORD_ONLY)


@_record
class Segment:
    """One file of rows.

    Attributes:
        path: where it is, relative to the checkpoint directory.
        bytes: its size.
        rows: rows with values in it.
        tombstones: removed keys in it.
        group: name of the table group.
        shard: shard of the group.
        kind: "base", "increment" or "differential".
        interval: the interval that the rows are of.
        footer_crc: masked CRC-32C of the footer record.
        encoding: how float values of the parameter are stored: "raw", or one of those that lose bits.
        slot_encoding: the same of the slots.
    """

    path: str
    bytes: int
    rows: int
    tombstones: int
    group: str
    shard: int
    kind: str
    interval: int
    footer_crc: int
    encoding: str = RAW
    slot_encoding: str = RAW


@_record
class TableSpec:
    """One table of a group: the parameter or one slot.

    Attributes:
        name: the name of the table.
        dtype: the name of the TensorFlow dtype of the values.
        dim: values per row.
    """

    name: str
    dtype: str
    dim: int


@_record
class GroupSpec:
    """A table group.

    Attributes:
        name: the name of the group, unique in the manifest.
        key_dtype: the name of the TensorFlow dtype of the keys.
        num_shards: the number of shards at save time.
        tables: parameter first, then slots.
    """

    name: str
    key_dtype: str
    num_shards: int
    tables: tuple[TableSpec, ...]


@_record
class DenseVariable:
    """One dense variable in the bundle.

    Attributes:
        key: its key in the bundle.
        dtype: the name of its TensorFlow dtype.
        shape: its shape.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]


@_record
class DenseBundle:
    """The dense variables of a cut, in a TensorFlow tensor bundle.

    Attributes:
        prefix: path prefix of the bundle's files, relative to the checkpoint directory.
        files: file name in the directory of the prefix -> size in bytes.
        variables: what is in the bundle.
    """

    prefix: str
    files: dict[str, int]
    variables: tuple[DenseVariable, ...]

    def paths(self) -> dict[str, int]:
        """Returns path relative to the checkpoint directory -> size in bytes, for each file."""
        directory = self.prefix.rsplit("/", 1)[0]
        return {f"{directory}/{name}": size for name, size in self.files.items()}


@_record
class Position:
    """Where in the input the cut is.

    Attributes:
        epoch: epochs finished.
        batch: batches of the current epoch finished.
        batches_total: batches finished since training began.
    """

    epoch: int
    batch: int
    batches_total: int


@_record
class Manifest:
    """Everything about one checkpoint; the file that holds it makes the checkpoint exist.

    Attributes:
        step: the step the user saved it under.
        interval: the interval that this checkpoint closed.
        kind: "base" or "delta".
        base_interval: the interval of the base of its chain.
        segments: every segment a restore needs; per group and shard first the base, then the
            increments by rising interval, then the differential.
        groups: the table groups.
        dense: the dense variables, or None if there are none.
        position: the position in the input, or None if it is not known.
        counters: optimizer iterations, metrics and the like; JSON values.
        policy: the state of the policy; JSON values.
        versions: package -> version at save time.
        wall_time: when the cut was taken, in seconds since the epoch.
        format_version: the version of the manifest's own format.
    """

    step: int
    interval: int
    kind: str
    base_interval: int
    segments: tuple[Segment, ...]
    groups: tuple[GroupSpec, ...]
    dense: DenseBundle | None = None
    position: Position | None = None
    counters: dict[str, Any] = dataclasses.field(default_factory=dict)
    policy: dict[str, Any] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    wall_time: float = 0.0
    format_version: int = FORMAT_VERSION

    @property
    def totals(self) -> dict[str, int]:
        """Sums over everything a restore reads: segments, rows, tombstones, bytes.

        They are written to the file too, so that a list with an entry missing is noticed.
        """
        return {
            "segments": len(self.segments),
            "rows": sum(segment.rows for segment in self.segments),
            "tombstones": sum(segment.tombstones for segment in self.segments),
            "bytes": sum(self.files().values()),
        }

    @property
    def encodings(self) -> list[str]:
        """The encodings of its segments, of parameters and of slots."""
        return sorted({name for s in self.segments for name in (s.encoding, s.slot_encoding)})

    @property
    def exact(self) -> bool:
        """Whether a restore gives every row bit for bit what it was at the cut."""
        return set(self.encodings) <= {RAW}

    def files(self) -> dict[str, int]:
        """Returns path relative to the checkpoint directory -> size in bytes, for each file.

        The files of the dense bundle are among them, the manifest itself is not.
        """
        sizes = {segment.path: segment.bytes for segment in self.segments}
        if self.dense is not None:
            sizes.update(self.dense.paths())
        return sizes

    def new_files(self) -> dict[str, int]:
        """Returns the same of the files that were written for this checkpoint, not for earlier ones."""
        sizes = {s.path: s.bytes for s in self.segments if s.interval == self.interval}
        if self.dense is not None:
            sizes.update(self.dense.paths())
        return sizes
