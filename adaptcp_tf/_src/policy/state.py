# SPDX-License-Identifier: Apache-2.0
"""Reads records from the state that a manifest keeps of a policy."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

Record = TypeVar("Record")


def read_fields(cls: type[Record], values: dict[str, Any] | None) -> Record | None:
    """Makes a dataclass from the fields in `values`, or returns None.

    The manifest may be of another version: fields that the class does not have are left out, and a
    record that lacks a field without a default is as good as none.
    """
    if values is None:
        return None
    fields = dataclasses.fields(cls)
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    if not needed <= set(values):
        return None
    return cls(**{field.name: values[field.name] for field in fields if field.name in values})
