# SPDX-License-Identifier: Apache-2.0
"""How large the files of a checkpoint are, by docs/FORMAT.md."""

from __future__ import annotations

import dataclasses

_FRAME_BYTES = 16
_REFERENCE_BYTES = 20
_TRAILER_BYTES = 48
# Magic, version, kind, interval, shard, number of shards, key type, encoding, number of tables.
_HEADER_BYTES = 8 + 4 + 1 + 8 + 4 + 4 + 1 + 1 + 4
# Record type, block number, number of rows, whether they are tombstones.
_KEY_RECORD_BYTES = 1 + 4 + 4 + 1
# Key, interval of the last update, rate, flags.
_KEY_RECORD_ROW_BYTES = 8 + 4 + 2 + 1
# Record type, number of tables, header, number of blocks, totals.
_FOOTER_BYTES = 1 + 4 + _REFERENCE_BYTES + 4 + 8 + 8
# As in custom_ops/engine/table_group_cut.cc.
_BLOCK_VALUE_BYTES = 1 << 20
_MIN_BLOCK_ROWS = 64
_MAX_BLOCK_ROWS = 1 << 16
# Ends of the range that the codes of a quantised row divide.
_RANGE_BYTES = 8
_VALUE_BYTES = {"float32": 4, "float64": 8}


@dataclasses.dataclass(frozen=True)
class Table:
    """One table of a group.

    Attributes:
        name: its name in the group.
        dtype: name of the dtype of its values.
        row_bytes: bytes of a row.
    """

    name: str
    dtype: str
    row_bytes: int

    def encoded_bytes(self, encoding: str) -> int:
        """Bytes of a row in a value record of that encoding."""
        value_bytes = _VALUE_BYTES.get(self.dtype)
        if encoding == "raw" or value_bytes is None:
            return self.row_bytes
        dim = self.row_bytes // value_bytes
        if encoding in ("float16", "bfloat16"):
            return min(self.row_bytes, 2 * dim)
        bits = int(encoding[len("int") :]) * dim
        return min(self.row_bytes, _RANGE_BYTES + -(-bits // 8))


@dataclasses.dataclass(frozen=True)
class RowLayout:
    """What the rows of a table group with integer keys are made of.

    Attributes:
        group: name of the table group.
        tables: parameter first, then slots.
    """

    group: str
    tables: tuple[Table, ...]

    @classmethod
    def of_floats(cls, dim: int, slots: int) -> RowLayout:
        """A parameter and `slots` slots of `dim` float32 values each."""
        names = ["parameter", *(f"slot{i}" for i in range(slots))]
        return cls("embedding", tuple(Table(name, "float32", 4 * dim) for name in names))

    @property
    def block_rows(self) -> int:
        """Most rows of a block."""
        return min(max(_BLOCK_VALUE_BYTES // self.row_bytes, _MIN_BLOCK_ROWS), _MAX_BLOCK_ROWS)

    @property
    def row_bytes(self) -> int:
        """Bytes of the values of a row in memory."""
        return sum(table.row_bytes for table in self.tables)

    def segment_bytes(self, rows: int, encoding: str = "raw", slot_encoding: str = "raw") -> int:
        """Bytes of a segment of so many rows, all of them in every table; 0 without rows.

        Exact as long as the rows fit one block; blocks of a real segment may be up to 127 rows short
        of full.

        Args:
            rows: how many.
            encoding: of the parameter: "raw", "int2", "int3", "int4", "int8", "float16" or "bfloat16".
            slot_encoding: the same of the slots.
        """
        if rows == 0:
            return 0
        blocks = -(-rows // self.block_rows)
        parameter, *slots = self.tables
        values = parameter.encoded_bytes(encoding)
        values += sum(slot.encoded_bytes(slot_encoding) for slot in slots)
        per_block = _FRAME_BYTES + _KEY_RECORD_BYTES + len(self.tables) * (1 + _FRAME_BYTES)
        return (
            self._header_bytes()
            + blocks * per_block
            + rows * (_KEY_RECORD_ROW_BYTES + values)
            + self._footer_bytes(blocks)
            + _TRAILER_BYTES
        )

    def _header_bytes(self) -> int:
        tables = sum(
            4 + len(table.name) + 4 + len(table.dtype) + 4 + 4 + table.row_bytes
            for table in self.tables
        )
        return _FRAME_BYTES + _HEADER_BYTES + 4 + len(self.group) + tables

    def _footer_bytes(self, blocks: int) -> int:
        index = 4 + 1 + _REFERENCE_BYTES * (1 + len(self.tables))
        return _FRAME_BYTES + _FOOTER_BYTES + blocks * index
