# SPDX-License-Identifier: Apache-2.0
"""The identity of a checkpoint: as docs/FORMAT.md says, whatever files its rows are in."""

import dataclasses
import hashlib
import json

import pytest

from adaptcp_tf._src.manifest import encode_manifest, identity
from tests.python.manifest import samples

KEPT = [
    "counters",
    "dense",
    "groups",
    "interval",
    "policy",
    "position",
    "step",
    "versions",
    "wall_time",
]


def test_is_what_the_format_says():
    manifest = samples.delta()
    fields = {name: json.loads(encode_manifest(manifest))[name] for name in KEPT}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert identity(manifest) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_a_compaction_keeps_it():
    manifest = samples.delta()
    base = dataclasses.replace(
        manifest,
        kind="base",
        base_interval=manifest.interval,
        segments=tuple(
            samples.segment("base", manifest.interval, shard=s.shard, num_shards=2)
            for s in manifest.segments[:1]
        ),
    )
    assert encode_manifest(base) != encode_manifest(manifest)
    assert identity(base) == identity(manifest)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 1201},
        {"wall_time": 1.25},
        {"counters": {"iterations": 1}},
        {"dense": None},
        {"position": None},
        {"policy": {"strategy": "other"}},
        {"versions": {"tensorflow": "1.0"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_all_else_is_part_of_it(change):
    manifest = samples.delta()
    assert identity(dataclasses.replace(manifest, **change)) != identity(manifest)
