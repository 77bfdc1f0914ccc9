# SPDX-License-Identifier: Apache-2.0
"""Manifests round-trip exactly; whatever was damaged is refused with file, field and values."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import decode_manifest, encode_manifest
from tests.python.manifest import samples
from tests.python.manifest.samples import encoded_after

PATH = "/run/manifest-0000000000001200.json"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def refused(data, field):
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        decode_manifest(data, PATH)
    error = caught.value
    assert (error.path, error.field) == (PATH, field)
    assert repr(PATH) in str(error)
    assert "Received: " in str(error)
    assert "Expected: " in str(error)
    return error


# Round trips.


@pytest.mark.parametrize("make", [samples.delta, samples.base, samples.empty_manifest])
def test_manifest_comes_back_as_it_was(make):
    assert decode_manifest(encode_manifest(make()), PATH) == make()


@given(
    counters=st.dictionaries(st.text(), json_values),
    policy=st.dictionaries(st.text(), json_values),
    versions=st.dictionaries(st.text(), st.text()),
    wall_time=st.floats(allow_nan=False, allow_infinity=False),
    name=st.text(),
)
def test_any_content_comes_back_as_it_was(counters, policy, versions, wall_time, name):
    manifest = dataclasses.replace(
        samples.base(),
        segments=(samples.segment("base", 4, group=name),),
        groups=(samples.group(name),),
        counters=counters,
        policy=policy,
        versions=versions,
        wall_time=wall_time,
    )
    decoded = decode_manifest(encode_manifest(manifest), PATH)
    assert decoded == manifest
    # Equality alone would take 1 for True and 1.0.
    assert json.dumps(decoded.counters, sort_keys=True) == json.dumps(counters, sort_keys=True)


def test_encoding_is_canonical():
    manifest = samples.delta()
    counters = dict(reversed(manifest.counters.items()))
    assert encode_manifest(dataclasses.replace(manifest, counters=counters)) == encode_manifest(
        manifest
    )


def test_file_is_plain_ascii_with_one_line_per_segment():
    lines = encode_manifest(samples.delta()).decode("ascii").splitlines()
    assert sum(".acp" in line for line in lines) == len(samples.delta().segments)


def test_pretty_printed_file_still_loads():
    data = json.dumps(json.loads(encode_manifest(samples.delta())), indent=4).encode()
    assert decode_manifest(data, PATH) == samples.delta()


def test_tuples_become_lists():
    manifest = dataclasses.replace(samples.base(), policy={"a": (1, (2,))})
    assert decode_manifest(encode_manifest(manifest), PATH).policy == {"a": [1, [2]]}


def test_totals_are_sums_over_all_files():
    manifest = samples.delta()
    assert manifest.totals == {
        "segments": 6,
        "rows": sum(segment.rows for segment in manifest.segments),
        "tombstones": sum(segment.tombstones for segment in manifest.segments),
        "bytes": sum(segment.bytes for segment in manifest.segments) + 3012,
    }


# What cannot be encoded.


@pytest.mark.parametrize("name", ["counters", "policy", "versions"])
@pytest.mark.parametrize("value", [{"a": {1, 2}}, {1: "a"}, {"a": float("nan")}, {"a": b"x"}])
def test_what_json_cannot_hold_is_refused_before_it_is_written(name, value):
    with pytest.raises(errors.InvalidOptionError, match=f"Invalid value for {name}"):
        encode_manifest(dataclasses.replace(samples.base(), **{name: value}))


@pytest.mark.parametrize("changes", [{"wall_time": float("inf")}, {"step": 1j}])
def test_field_of_no_json_type_is_refused_before_it_is_written(changes):
    with pytest.raises(errors.InvalidOptionError, match="Expected: plain Python values"):
        encode_manifest(dataclasses.replace(samples.base(), **changes))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"interval": 3}, "interval"),
        ({"step": "1200"}, "step"),
        ({"format_version": 2}, "format_version"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(changes, field):
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        encode_manifest(dataclasses.replace(samples.base(), **changes))
    assert caught.value.field == field


# Damage.


@given(st.data())
def test_flipped_bits_never_give_another_manifest(data):
    good = encode_manifest(samples.delta())
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decoded = decode_manifest(bytes(bad), PATH)
    except errors.CorruptCheckpointError as error:
        assert error.path == PATH
    else:
        assert decoded == samples.delta()


def test_truncated_file_is_refused_at_any_length():
    good = encode_manifest(samples.delta())
    for length in range(len(good.rstrip())):
        with pytest.raises(errors.CorruptCheckpointError):
            decode_manifest(good[:length], PATH)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 64, b"\xff\xfe", b"not json", b"[" * 100_000, b'{"step": 1, "step": 2}'],
)
def test_what_is_not_json_is_refused(data):
    refused(data, "(whole file)")


@pytest.mark.parametrize("data", [b"[]", b"null", b"3", b'"text"', b'{"a": NaN}', b'{"a": 1e999}'])
def test_json_of_another_form_is_refused(data):
    refused(data, "(whole file)")


def test_edit_without_checksum_is_noticed():
    data = encode_manifest(samples.delta()).replace(b'"rows":12', b'"rows":13')
    error = refused(data, "checksum")
    assert error.received != error.expected


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.0])
def test_unknown_format_version_says_what_to_install(version):
    error = refused(encoded_after(lambda b: b.update(format_version=version)), "format_version")
    assert error.received == version
    assert "Install the version of adaptcp_tf that wrote it" in str(error)


OBJECTS = {
    "": lambda body: body,
    "segments[1].": lambda body: body["segments"][1],
    "groups[0].": lambda body: body["groups"][0],
    "groups[0].tables[1].": lambda body: body["groups"][0]["tables"][1],
    "dense.": lambda body: body["dense"],
    "dense.variables[0].": lambda body: body["dense"]["variables"][0],
    "position.": lambda body: body["position"],
}
ALL_FIELDS = [
    (where, name)
    for where, find in OBJECTS.items()
    for name in find(json.loads(encode_manifest(samples.delta())))
    if name not in ("checksum", "format_version")
]


@pytest.mark.parametrize(("where", "name"), ALL_FIELDS)
def test_missing_field_is_named(where, name):
    error = refused(encoded_after(lambda body: OBJECTS[where](body).pop(name)), where + name)
    assert "missing" in str(error)


@pytest.mark.parametrize(("where", "name"), ALL_FIELDS)
@pytest.mark.parametrize("value", [True, "text", -1.5, [3.5], None])
def test_field_of_wrong_type_is_named(where, name, value):
    if (name, value) in (("dense", None), ("position", None)) or type(value) is type(
        OBJECTS[where](json.loads(encode_manifest(samples.delta())))[name]
    ):
        value = {}
    data = encoded_after(lambda body: OBJECTS[where](body).update({name: value}))
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        decode_manifest(data, PATH)
    assert caught.value.field.startswith(where + name)


@pytest.mark.parametrize(
    ("where", "name", "value", "field"),
    [
        ("", "segments", [3], "segments[0]"),
        ("", "versions", {"tensorflow": 2}, "versions['tensorflow']"),
        ("dense.", "files", {"dense.index": "12"}, "dense.files['dense.index']"),
        ("dense.variables[0].", "shape", [13, 4.0], "dense.variables[0].shape"),
    ],
)
def test_entry_of_wrong_type_is_named(where, name, value, field):
    refused(encoded_after(lambda body: OBJECTS[where](body).update({name: value})), field)


@pytest.mark.parametrize("where", OBJECTS)
def test_unknown_field_is_named(where):
    refused(encoded_after(lambda body: OBJECTS[where](body).update(extra=1)), f"{where}extra")


def test_sum_that_does_not_fit_is_noticed():
    refused(encoded_after(lambda body: body["totals"].update(rows=1)), "totals")
