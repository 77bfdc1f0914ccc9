# SPDX-License-Identifier: Apache-2.0
"""Typed access to the fields of one JSON object, with errors that name file and field."""

from __future__ import annotations

import dataclasses
from typing import Any

from adaptcp_tf._src.manifest.faults import corrupt


class Fields:
    """The fields of one JSON object of a file.

    Example:
        >>> Fields("m.json", "", {"step": 3}).integer("step")
        3

    Args:
        path: the file, for messages.
        where: the place of the object in the file, such as `segments[3]`; "" for the whole.
        values: the object.
    """

    def __init__(self, path: str, where: str, values: dict[str, Any]):
        self._path = path
        self._where = where
        self._values = values

    def expect_only(self, record: type, also: tuple[str, ...] = ()) -> None:
        """Raises CorruptCheckpointError unless the fields are exactly those of a dataclass."""
        expected = {field.name for field in dataclasses.fields(record)}.union(also)
        for name in sorted(expected.symmetric_difference(self._values)):
            if name in expected:
                raise self._fault(name, "a value", "nothing, it is missing")
            raise self._fault(name, "no such field", self._values[name])

    def text(self, name: str) -> str:
        """Returns a string field."""
        return self._typed(name, (str,), "a string")

    def integer(self, name: str) -> int:
        """Returns an integer field."""
        return self._typed(name, (int,), "an integer")

    def number(self, name: str) -> float:
        """Returns a number field."""
        return self._typed(name, (int, float), "a number")

    def integers(self, name: str) -> tuple[int, ...]:
        """Returns a field that is a list of integers."""
        values = self._typed(name, (list,), "a list of integers")
        if any(type(value) is not int for value in values):
            raise self._fault(name, "a list of integers", values)
        return tuple(values)

    def mapping(self, name: str, of: type | None = None) -> dict[str, Any]:
        """Returns a field that is an object, its values of type `of` if that is given."""
        values = self._typed(name, (dict,), "an object")
        for key, value in values.items():
            if of is not None and type(value) is not of:
                raise self._fault(f"{name}[{key!r}]", f"a value of type {of.__name__}", value)
        return values

    def child(self, name: str, optional: bool = False) -> Fields | None:
        """Returns the fields of an object in here; None for null, if that is allowed."""
        if optional and self._values[name] is None:
            return None
        values = self._typed(name, (dict,), "an object")
        return Fields(self._path, self._name(name), values)

    def children(self, name: str) -> list[Fields]:
        """Returns the fields of each object of a list in here."""
        result = []
        for index, values in enumerate(self._typed(name, (list,), "a list of objects")):
            entry = f"{name}[{index}]"
            if type(values) is not dict:
                raise self._fault(entry, "an object", values)
            result.append(Fields(self._path, self._name(entry), values))
        return result

    def _typed(self, name: str, types: tuple[type, ...], expected: str) -> Any:
        value = self._values[name]
        # Not isinstance: true is an int in Python, not in JSON.
        if type(value) not in types:
            raise self._fault(name, expected, value)
        return value

    def _name(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _fault(self, name: str, expected: str, received: Any) -> Exception:
        return corrupt(self._path, self._name(name), expected, received)
