# SPDX-License-Identifier: Apache-2.0
"""Checksums of files and of JSON objects: SHA-256, spelled `sha256:` and hexadecimal digits."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from adaptcp_tf._src.storage import files

_SPELLING = "sha256:"
_BLOCK_BYTES = 8 << 20


def of_bytes(data: bytes) -> str:
    """Returns the checksum of bytes.

    Example:
        >>> of_bytes(b"hello")[:15]
        'sha256:2cf24dba'
    """
    return _SPELLING + hashlib.sha256(data).hexdigest()


def of_json(value: Any) -> str:
    """Returns the checksum of a JSON value, whatever the blanks and the order of keys in its file.

    Example:
        >>> of_json({"a": 1, "b": 2}) == of_json({"b": 2, "a": 1})
        True

    Args:
        value: what to sum up: as ASCII, with sorted keys and no blanks.

    Raises:
        ValueError: it holds NaN or an infinity.
        TypeError: it holds what JSON cannot.
    """
    return of_bytes(canonical_json(value).encode("ascii"))


def canonical_json(value: Any) -> str:
    """Returns the spelling of a JSON value that checksums are of; raises as `of_json`.

    Dataclasses in it are objects of their fields.

    Example:
        >>> canonical_json({"b": [1, 2], "a": None})
        '{"a":null,"b":[1,2]}'
    """
    return _ENCODER.encode(value)


def of_file(path: str) -> str:
    """Returns the checksum of a file, of which it holds eight megabytes at a time.

    Example:
        >>> files.write_durably(files.join(directory, "note"), b"hello")
        >>> of_file(files.join(directory, "note")) == of_bytes(b"hello")
        True

    Args:
        path: a path or URI.

    Raises:
        StorageNotFoundError: there is no such file.
        StorageError: it could not be read.
    """
    digest = hashlib.sha256()
    offset = 0
    while block := files.read_range(path, offset, _BLOCK_BYTES):
        digest.update(block)
        offset += len(block)
    return _SPELLING + digest.hexdigest()


def _fields_of(record: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(record):
        raise TypeError(f"{record!r} of type {type(record).__name__} is no JSON value")
    return vars(record)


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, default=_fields_of
)
