# SPDX-License-Identifier: Apache-2.0
"""Chains: what a new checkpoint keeps of the one before, and the order of a restore."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import extend_chain, restore_order
from adaptcp_tf._src.manifest.checks import check_manifest
from tests.python.manifest import samples
from tests.python.manifest.samples import segment

SHARDS = 3
GROUPS = ("emb", "other")
RANKS = {"base": 0, "increment": 1, "differential": 2}

subsets = st.sets(st.tuples(st.sampled_from(GROUPS), st.integers(0, SHARDS - 1)))
cuts = st.lists(st.tuples(st.booleans(), subsets, subsets), max_size=12)


def written(kind, interval, owners):
    return [
        segment(
            kind,
            interval,
            group=group,
            group_index=GROUPS.index(group),
            shard=shard,
            num_shards=SHARDS,
        )
        for group, shard in owners
    ]


def manifest(kind, interval, base_interval, segments):
    return dataclasses.replace(
        samples.base(),
        kind=kind,
        interval=interval,
        base_interval=base_interval,
        segments=segments,
        groups=tuple(samples.group(name, SHARDS) for name in GROUPS),
    )


def identities(segments):
    return [(segment.kind, segment.interval) for segment in segments]


def one_shard(kind, interval, base_interval, *segments):
    groups = (samples.group(),)
    return dataclasses.replace(manifest(kind, interval, base_interval, segments), groups=groups)


@given(cuts)
def test_any_history_gives_sound_chains_that_hold_just_what_a_restore_needs(history):
    owners = [(group, shard) for group in GROUPS for shard in range(SHARDS)]
    last = manifest("base", 1, 1, extend_chain(None, [], kind="base", interval=1))
    expected = {owner: [] for owner in owners}
    for interval, (is_base, first, second) in enumerate(history, start=2):
        if is_base:
            new = written("base", interval, first)
            expected = {o: [("base", interval)] if o in first else [] for o in owners}
        else:
            new = written("differential", interval, second) + written("increment", interval, first)
            for owner in owners:
                kept = [entry for entry in expected[owner] if entry[0] != "differential"]
                kept += [("increment", interval)] if owner in first else []
                kept += [("differential", interval)] if owner in second else []
                expected[owner] = kept
        kind = "base" if is_base else "delta"
        segments = extend_chain(last, new, kind=kind, interval=interval)
        last = manifest(kind, interval, interval if is_base else last.base_interval, segments)
        check_manifest(last, "m")
        order = restore_order(last)
        assert list(order) == list(dict.fromkeys(group for group, _ in owners))
        for group, shard in owners:
            here = [segment for segment in order[group] if segment.shard == shard]
            assert identities(reversed(here)) == expected[group, shard]
        for segments in order.values():
            ages = [(RANKS[s.kind], s.interval) for s in segments]
            assert ages == sorted(ages, reverse=True)


def test_restore_reads_the_newest_first():
    segments = [segment(kind, i) for kind, i in (("base", 1), ("increment", 2), ("increment", 4))]
    last = one_shard("delta", 5, 1, *segments, segment("differential", 5))
    assert identities(restore_order(last)["emb"]) == [
        ("differential", 5),
        ("increment", 4),
        ("increment", 2),
        ("base", 1),
    ]


def test_group_without_segments_is_listed_as_empty():
    assert restore_order(one_shard("delta", 5, 1)) == {"emb": []}


def test_differential_goes_when_the_new_one_is_empty():
    last = one_shard("delta", 3, 1, segment("base", 1), segment("differential", 3))
    assert identities(extend_chain(last, [], kind="delta", interval=4)) == [("base", 1)]


def test_base_starts_anew():
    last = one_shard("delta", 3, 1, segment("base", 1), segment("increment", 3))
    new = segment("base", 4)
    assert extend_chain(last, [new], kind="base", interval=4) == (new,)


def test_order_of_the_new_segments_does_not_matter():
    last = one_shard("base", 1, 1, segment("base", 1))
    parts = [segment("increment", 2, part=part) for part in (0, 1, 2, 10)]
    new = [segment("differential", 2), *parts]
    chain = extend_chain(last, new, kind="delta", interval=2)
    assert chain == extend_chain(last, new[::-1], kind="delta", interval=2)


@pytest.mark.parametrize(
    ("new", "kind"),
    [
        ([segment("increment", 2)], "base"),
        ([segment("differential", 2)], "base"),
        ([segment("base", 2)], "delta"),
        ([segment("increment", 1)], "delta"),
        ([segment("increment", 3)], "delta"),
        ([segment("increment", 2)] * 2, "delta"),
        ([], "full"),
    ],
)
def test_segments_that_are_not_of_this_cut_are_refused(new, kind):
    last = one_shard("base", 1, 1, segment("base", 1))
    with pytest.raises(errors.InvalidOptionError, match=r"Received|second"):
        extend_chain(last, new, kind=kind, interval=2)


@pytest.mark.parametrize("last", [None, one_shard("base", 2, 2), one_shard("base", 3, 3)])
def test_delta_needs_an_earlier_checkpoint(last):
    with pytest.raises(errors.InvalidOptionError, match="Take a base first"):
        extend_chain(last, [], kind="delta", interval=2)
