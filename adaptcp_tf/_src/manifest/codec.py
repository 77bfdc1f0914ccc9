# SPDX-License-Identifier: Apache-2.0
"""Manifest to bytes and back: pure functions, strict about every field."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.manifest.checks import check_manifest
from adaptcp_tf._src.manifest.faults import corrupt
from adaptcp_tf._src.manifest.fields import Fields
from adaptcp_tf._src.manifest.types import (
    FORMAT_VERSION,
    DenseBundle,
    DenseVariable,
    GroupSpec,
    Manifest,
    Position,
    Segment,
    TableSpec,
)
from adaptcp_tf._src.storage import checksums
from adaptcp_tf._src.storage.checksums import canonical_json

_CHECKSUM = "checksum"


def encode_manifest(manifest: Manifest) -> bytes:
    """Encodes a manifest as JSON, one line per entry, with a checksum.

    The checksum is the SHA-256 of the same JSON object without the checksum, written in ASCII
    with sorted keys and no blanks; so the file may be pretty-printed without losing it.

    Example:
        >>> decode_manifest(encode_manifest(manifest), "m.json") == manifest
        True

    Args:
        manifest: what to encode.

    Returns:
        The content of its file.

    Raises:
        CorruptCheckpointError: if a field has the wrong type or its parts contradict each other,
            so that `decode_manifest` would refuse it.
        InvalidOptionError: if it holds what JSON cannot, such as numpy numbers or NaN.
    """
    label = f"manifest of step {manifest.step}"
    body = {field.name: getattr(manifest, field.name) for field in dataclasses.fields(manifest)}
    for name in ("counters", "policy", "versions"):
        body[name] = _plain(body[name], name)
    body["totals"] = manifest.totals
    try:
        texts = {
            key: [canonical_json(v) for v in value] if _is_list(value) else canonical_json(value)
            for key, value in body.items()
            if key != "segments"
        }
        texts["segments"] = [
            _segment_text(*vars(segment).values()) for segment in manifest.segments
        ]
    except errors.CorruptCheckpointError:
        raise
    except (TypeError, ValueError) as error:
        raise errors.InvalidOptionError(
            f"Invalid value in the {label}. Received: {error}. Expected: plain Python values."
        ) from error
    # A chain may have thousands of segments; each was looked at when it was first written.
    rest = json.loads(_join({**texts, "segments": []}))
    _check_version(rest, label)
    _read_manifest(Fields(label, "", rest))
    check_manifest(manifest, label)
    texts[_CHECKSUM] = canonical_json(checksums.of_bytes(_join(texts).encode("ascii")))
    return _layout(texts).encode("ascii")


def decode_manifest(data: bytes, path: str) -> Manifest:
    """Decodes a manifest and verifies it from checksum to chain.

    Example:
        >>> decode_manifest(b"{}", "m.json")
        Traceback (most recent call last):
        ...
        adaptcp_tf.errors.CorruptCheckpointError: ...

    Args:
        data: the content of the file.
        path: the file, for messages.

    Returns:
        The manifest.

    Raises:
        CorruptCheckpointError: if anything is missing, unknown, of the wrong type, damaged or
            contradicts the rest; it names file, field, expected and received.
    """
    body = _parse(data, path)
    _check_version(body, path)
    checksum = body.pop(_CHECKSUM, None)
    actual = checksums.of_json(body)
    if checksum != actual:
        raise corrupt(path, _CHECKSUM, f"{actual}, that of the rest of the file", checksum)
    manifest = _read_manifest(Fields(path, "", body))
    check_manifest(manifest, path)
    if body["totals"] != manifest.totals:
        raise corrupt(path, "totals", f"{manifest.totals}, the sums over the lists", body["totals"])
    return manifest


def _check_version(body: dict[str, Any], path: str) -> None:
    version = body.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        advice = "Install the version of adaptcp_tf that wrote it, or a newer one."
        raise corrupt(path, "format_version", repr(FORMAT_VERSION), version, advice)


# Values that are equal but of other types are other values here: True is no number of bytes.
@functools.lru_cache(maxsize=1 << 14, typed=True)
def _segment_text(*values: Any) -> str:
    """Encodes a segment, given its fields in order, and verifies that it can be decoded."""
    names = (field.name for field in dataclasses.fields(Segment))
    text = canonical_json(dict(zip(names, values)))
    _read_segment(Fields("manifest", "segments", json.loads(text)))
    return text


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _join(texts: dict[str, str | list[str]]) -> str:
    """An object with these encoded values, as `canonical_json` writes it."""
    parts = (
        f"{canonical_json(key)}:{text if isinstance(text, str) else '[' + ','.join(text) + ']'}"
        for key, text in sorted(texts.items())
    )
    return "{" + ",".join(parts) + "}"


def _layout(texts: dict[str, str | list[str]]) -> str:
    """As `_join`, but one line per top-level key and per entry of a list: readable."""
    lines = []
    for key, text in sorted(texts.items()):
        if not isinstance(text, str):
            text = "[\n  " + ",\n  ".join(text) + "\n ]" if text else "[]"
        lines.append(f" {canonical_json(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(value: Any, field: str) -> Any:
    """Copies a JSON value; refuses what would not come back from the file as it was."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(entry, f"{field}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _plain(entry, f"{field}[{key!r}]") for key, entry in value.items()}
    raise errors.InvalidOptionError(
        f"Invalid value for {field} of a manifest. Received: {value!r} of type "
        f"{type(value).__name__}. Expected: None, bool, int, str, finite float, or lists and "
        "dicts with string keys of these."
    )


def _parse(data: bytes, path: str) -> dict[str, Any]:
    try:
        body = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_repeated_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
        )
    except (ValueError, RecursionError) as error:
        raise corrupt(path, "(whole file)", "JSON", f"{len(data)} bytes: {error}") from error
    if not isinstance(body, dict):
        raise corrupt(path, "(whole file)", "a JSON object", body)
    return body


def _without_repeated_keys(pairs: list[Any]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError(f"a key is repeated among {sorted(key for key, _ in pairs)}")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value


def _read_manifest(fields: Fields) -> Manifest:
    fields.expect_only(Manifest, also=("totals",))
    fields.mapping("totals")
    dense = fields.child("dense", optional=True)
    position = fields.child("position", optional=True)
    return Manifest(
        format_version=fields.integer("format_version"),
        step=fields.integer("step"),
        interval=fields.integer("interval"),
        kind=fields.text("kind"),
        base_interval=fields.integer("base_interval"),
        segments=tuple(_read_segment(entry) for entry in fields.children("segments")),
        groups=tuple(_read_group(entry) for entry in fields.children("groups")),
        dense=None if dense is None else _read_dense(dense),
        position=None if position is None else _read_position(position),
        counters=fields.mapping("counters"),
        policy=fields.mapping("policy"),
        versions=fields.mapping("versions", of=str),
        wall_time=fields.number("wall_time"),
    )


def _read_segment(fields: Fields) -> Segment:
    fields.expect_only(Segment)
    return Segment(
        path=fields.text("path"),
        bytes=fields.integer("bytes"),
        rows=fields.integer("rows"),
        tombstones=fields.integer("tombstones"),
        group=fields.text("group"),
        shard=fields.integer("shard"),
        kind=fields.text("kind"),
        interval=fields.integer("interval"),
        footer_crc=fields.integer("footer_crc"),
        encoding=fields.text("encoding"),
        slot_encoding=fields.text("slot_encoding"),
    )


def _read_group(fields: Fields) -> GroupSpec:
    fields.expect_only(GroupSpec)
    return GroupSpec(
        name=fields.text("name"),
        key_dtype=fields.text("key_dtype"),
        num_shards=fields.integer("num_shards"),
        tables=tuple(_read_table(entry) for entry in fields.children("tables")),
    )


def _read_table(fields: Fields) -> TableSpec:
    fields.expect_only(TableSpec)
    return TableSpec(
        name=fields.text("name"), dtype=fields.text("dtype"), dim=fields.integer("dim")
    )


def _read_dense(fields: Fields) -> DenseBundle:
    fields.expect_only(DenseBundle)
    return DenseBundle(
        prefix=fields.text("prefix"),
        files=fields.mapping("files", of=int),
        variables=tuple(_read_variable(entry) for entry in fields.children("variables")),
    )


def _read_variable(fields: Fields) -> DenseVariable:
    fields.expect_only(DenseVariable)
    return DenseVariable(
        key=fields.text("key"), dtype=fields.text("dtype"), shape=fields.integers("shape")
    )


def _read_position(fields: Fields) -> Position:
    fields.expect_only(Position)
    return Position(
        epoch=fields.integer("epoch"),
        batch=fields.integer("batch"),
        batches_total=fields.integer("batches_total"),
    )
