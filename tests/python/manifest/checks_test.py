# SPDX-License-Identifier: Apache-2.0
"""Manifests that contradict themselves: missing, repeated, reordered, misplaced segments."""

import dataclasses

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import decode_manifest, encode_manifest
from adaptcp_tf._src.manifest.checks import check_manifest
from tests.python.manifest import samples
from tests.python.manifest.samples import encoded_after, segment

PATH = "/run/manifest-0000000000001200.json"


def chain_of(*segments, **changes):
    """A delta of interval 5 on base 2 with these segments of one shard."""
    plain = dataclasses.replace(
        samples.base(), kind="delta", interval=5, base_interval=2, segments=segments
    )
    return dataclasses.replace(plain, **changes)


BASE = segment("base", 2)
THIRD, FOURTH, FIFTH = (segment("increment", interval) for interval in (3, 4, 5))
HOT = segment("differential", 5)


def in_parts(kind, interval, *parts):
    return tuple(segment(kind, interval, part=part) for part in parts)


def refused(manifest, field):
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        check_manifest(manifest, PATH)
    assert (caught.value.path, caught.value.field) == (PATH, field)
    with pytest.raises(errors.CorruptCheckpointError):
        encode_manifest(manifest)
    return str(caught.value)


@pytest.mark.parametrize(
    "segments",
    [
        (),
        (BASE,),
        (BASE, THIRD, FOURTH, FIFTH, HOT),
        (BASE, FIFTH),  # Intervals without cold rows write no increment.
        (THIRD, HOT),  # A group that was created after the base has none.
        (HOT,),
        (*in_parts("base", 2, 0, 1, 2), THIRD, *in_parts("differential", 5, 0, 3)),
        (BASE, *in_parts("increment", 3, 1, 2), *in_parts("increment", 4, 0, 1), HOT),
    ],
)
def test_sound_chains_pass(segments):
    check_manifest(chain_of(*segments), PATH)


# Increments.


def test_missing_increment_is_noticed():
    full = chain_of(BASE, THIRD, FOURTH, FIFTH)
    data = encoded_after(lambda body: body["segments"].pop(2), full)
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        decode_manifest(data, PATH)
    assert caught.value.field == "totals"
    assert caught.value.expected.startswith("{'segments': 3")
    assert caught.value.received["segments"] == 4


def test_repeated_increment_is_noticed():
    refused(chain_of(BASE, THIRD, THIRD), "segments[2].path")


def test_two_increments_of_one_interval_are_noticed():
    other = dataclasses.replace(THIRD, path=THIRD.path.replace("badcafe", "badbeef"))
    message = refused(chain_of(BASE, THIRD, other), "segments[2].interval")
    assert "Received: 3" in message
    assert "from 4 to 5 for group 'emb', shard 0" in message


@pytest.mark.parametrize("parts", [(1, 0), (0, 2, 1), (1, 2, 1)])
@pytest.mark.parametrize(("kind", "interval"), [("increment", 3), ("differential", 5), ("base", 2)])
def test_reordered_or_repeated_parts_are_noticed(kind, interval, parts):
    before = () if kind == "base" else (BASE,)
    with pytest.raises(errors.CorruptCheckpointError):
        check_manifest(chain_of(*before, *in_parts(kind, interval, *parts)), PATH)


def test_parts_of_two_attempts_are_noticed():
    first, second = in_parts("increment", 3, 0, 1)
    other = dataclasses.replace(second, path=second.path.replace("badcafe", "badbeef"))
    refused(chain_of(BASE, first, other), "segments[2].interval")


def test_reordered_increments_are_noticed():
    refused(chain_of(BASE, FOURTH, THIRD), "segments[2].interval")


@pytest.mark.parametrize("interval", [0, 1, 2])
def test_increment_from_before_the_base_is_noticed(interval):
    refused(chain_of(BASE, segment("increment", interval)), "segments[1].interval")


@pytest.mark.parametrize("interval", [0, 1, 2])
def test_increment_from_before_a_base_without_rows_is_noticed(interval):
    refused(chain_of(segment("increment", interval)), "segments[0].interval")


def test_increment_from_after_the_checkpoint_is_noticed():
    refused(chain_of(BASE, segment("increment", 6)), "segments[1].interval")


# Differentials and bases.


@pytest.mark.parametrize("interval", [3, 4, 6])
def test_differential_of_another_interval_is_noticed(interval):
    refused(chain_of(BASE, segment("differential", interval)), "segments[1].interval")


@pytest.mark.parametrize("late", [BASE, FIFTH])
def test_segment_after_the_differential_is_noticed(late):
    assert "nothing after the differential" in refused(chain_of(HOT, late), "segments[1].interval")


def test_second_differential_is_noticed():
    other = dataclasses.replace(HOT, path=HOT.path.replace("badcafe", "badbeef"))
    refused(chain_of(BASE, HOT, other), "segments[2].interval")


def test_second_base_is_noticed():
    other = dataclasses.replace(BASE, path=BASE.path.replace("badcafe", "badbeef"))
    refused(chain_of(BASE, other), "segments[1].interval")


def test_base_behind_an_increment_is_noticed():
    refused(chain_of(THIRD, BASE), "segments[1].interval")


@pytest.mark.parametrize("interval", [1, 3])
def test_base_of_another_interval_is_noticed(interval):
    refused(chain_of(segment("base", interval)), "segments[0].interval")


@pytest.mark.parametrize("kind", ["increment", "differential"])
def test_base_checkpoint_with_other_segments_is_noticed(kind):
    manifest = dataclasses.replace(samples.base(), segments=(segment("base", 4), segment(kind, 4)))
    refused(manifest, "segments[1].kind")


def test_shards_are_checked_one_by_one():
    first, second = (segment("increment", 3, shard=s, num_shards=2) for s in (0, 1))
    groups = (samples.group(num_shards=2),)
    check_manifest(chain_of(first, second, groups=groups), PATH)


# Owners and paths.


def test_segment_of_an_unknown_group_is_noticed():
    refused(chain_of(segment("base", 2, group="other")), "segments[0].group")


@pytest.mark.parametrize("shard", [-1, 1])
def test_segment_of_an_unknown_shard_is_noticed(shard):
    refused(chain_of(dataclasses.replace(BASE, shard=shard)), "segments[0].shard")


@pytest.mark.parametrize(
    "path",
    [
        "segments/0000000000000002-0badcafe/g0-s1of2-base.acp",
        "segments/0000000000000002-0badcafe/g0-s0of2-base.acp",
        "segments/0000000000000002-0badcafe/g0-s0of1-increment.acp",
        "/segments/0000000000000002-0badcafe/g0-s0of1-base.acp",
        "../segments/0000000000000002-0badcafe/g0-s0of1-base.acp",
        "segments/../segments/0000000000000002-0badcafe/g0-s0of1-base.acp",
        "segments/0000000000000002-0badcafe/g0-s0of1-base.acp\n",
        "segments/0000000000000002-0badcafe/g0-s0of1-base.acp.tmp-0badcafe",
        "segments/0000000000000002-0badcafe/g0-s0of1-base-p0.acp",
        "segments/0000000000000002-0badcafe/g0-s0of1-base-p01.acp",
        "segments/0000000000000002-0badcafe/g0-s0of1-base-1.acp",
        "segments/0000000000000002/g0-s0of1-base.acp",
        "g0-s0of1-base.acp",
        "",
    ],
)
def test_path_that_is_not_this_segments_is_noticed(path):
    refused(chain_of(dataclasses.replace(BASE, path=path)), "segments[0].path")


@pytest.mark.parametrize("name", ["bytes", "rows", "tombstones"])
def test_negative_sizes_are_noticed(name):
    refused(chain_of(dataclasses.replace(BASE, **{name: -1})), f"segments[0].{name}")


@pytest.mark.parametrize("crc", [-1, 2**32])
def test_checksum_out_of_range_is_noticed(crc):
    refused(chain_of(dataclasses.replace(BASE, footer_crc=crc)), "segments[0].footer_crc")


@pytest.mark.parametrize("name", ["encoding", "slot_encoding"])
def test_unknown_encoding_is_noticed(name):
    refused(chain_of(dataclasses.replace(BASE, **{name: "int5"})), f"segments[0].{name}")


# The rest.


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "full"}, "kind"),
        ({"step": -1}, "step"),
        ({"step": 10**16}, "step"),
        ({"base_interval": -1}, "base_interval"),
        ({"interval": 2}, "interval"),
        ({"kind": "base"}, "interval"),
        ({"groups": (samples.group(), samples.group())}, "groups[1].name"),
        ({"groups": (samples.group(num_shards=0),)}, "groups[0].num_shards"),
    ],
)
def test_head_that_contradicts_itself_is_noticed(changes, field):
    refused(chain_of(**changes), field)


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ((), "groups[0].tables"),
        (samples.group().tables[:1] * 2, "groups[0].tables[1].name"),
        ((dataclasses.replace(samples.group().tables[0], dim=0),), "groups[0].tables[0].dim"),
    ],
)
def test_tables_that_cannot_be_are_noticed(tables, field):
    refused(chain_of(groups=(dataclasses.replace(samples.group(), tables=tables),)), field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"prefix": "segments/0000000000001200-0badcafe/other"}, "dense.prefix"),
        ({"prefix": "dense"}, "dense.prefix"),
        ({"files": {"../dense.index": 1}}, "dense.files"),
        ({"files": {"dense.data-00000-of-00001": 1}}, "dense.files"),
        ({"files": {"dense.index": -1}}, "dense.files['dense.index']"),
        ({"variables": samples.delta().dense.variables[:1] * 2}, "dense.variables[1].key"),
    ],
)
def test_dense_bundle_that_cannot_be_is_noticed(changes, field):
    refused(chain_of(dense=dataclasses.replace(samples.delta().dense, **changes)), field)


@pytest.mark.parametrize("name", ["epoch", "batch", "batches_total"])
def test_negative_position_is_noticed(name):
    position = dataclasses.replace(samples.delta().position, **{name: -1})
    refused(chain_of(position=position), f"position.{name}")
