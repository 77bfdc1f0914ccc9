# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints for the tests of this directory, in memory and on disk."""

import dataclasses
import hashlib
import json

from adaptcp_tf._src.manifest import (
    CheckpointStore,
    DenseBundle,
    DenseVariable,
    GroupSpec,
    Manifest,
    Position,
    Segment,
    TableSpec,
    encode_manifest,
    extend_chain,
    segment_prefix,
)
from adaptcp_tf._src.storage import files


def group(name="emb", num_shards=1):
    return GroupSpec(
        name=name,
        key_dtype="int64",
        num_shards=num_shards,
        tables=(
            TableSpec(name=name, dtype="float32", dim=4),
            TableSpec(name=f"{name}/Adam/m", dtype="float32", dim=4),
        ),
    )


def segment(
    kind, interval, *, shard=0, num_shards=1, group="emb", group_index=0, part=0, **changes
):
    prefix = segment_prefix(group_index, shard, num_shards)
    suffix = f"-p{part}" if part else ""
    plain = Segment(
        path=f"segments/{interval:016d}-0badcafe/{prefix}-{kind}{suffix}.acp",
        bytes=100 + interval,
        rows=10 + interval,
        tombstones=interval,
        group=group,
        shard=shard,
        kind=kind,
        interval=interval,
        footer_crc=interval,
    )
    return dataclasses.replace(plain, **changes)


def delta():
    """A delta of interval 4 with everything in it: base 2, increments 3 and 4, differential 4."""
    dense = DenseBundle(
        prefix="segments/0000000000001200-0badcafe/dense",
        files={"dense.index": 12, "dense.data-00000-of-00001": 3000},
        variables=(
            DenseVariable(key="w/.ATTRIBUTES", dtype="float32", shape=(13, 4)),
            DenseVariable(key="b", dtype="float32", shape=()),
        ),
    )
    return Manifest(
        step=1200,
        interval=4,
        kind="delta",
        base_interval=2,
        segments=(
            segment("base", 2, num_shards=2),
            segment("increment", 3, num_shards=2),
            segment("increment", 4, num_shards=2),
            segment("differential", 4, num_shards=2),
            segment("increment", 4, num_shards=2, shard=1),
            segment("increment", 4, group="späte/Gruppe", group_index=1),
        ),
        groups=(group(num_shards=2), group("späte/Gruppe")),
        dense=dense,
        position=Position(epoch=1, batch=200, batches_total=1200),
        counters={"iterations": 1200, "loss": 0.1, "nested": [{"a": None}, True, "ü"]},
        policy={"threshold": 0.25, "rates": [0.5, 1e-30]},
        versions={"tensorflow": "2.15.1"},
        wall_time=1.7e9,
    )


def base(step=1200, interval=4):
    """A base of one shard without dense variables."""
    return Manifest(
        step=step,
        interval=interval,
        kind="base",
        base_interval=interval,
        segments=(segment("base", interval),),
        groups=(group(),),
    )


def empty_manifest():
    """A checkpoint of a model without rows."""
    return dataclasses.replace(base(), segments=())


def encoded_after(change, manifest=None):
    """Encodes a manifest with one change to its JSON and a checksum that fits again."""
    body = json.loads(encode_manifest(manifest or delta()))
    change(body)
    del body["checksum"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    body["checksum"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(body).encode()


class Trainer:
    """Saves small checkpoints with real files into a directory, as the manager does."""

    def __init__(self, directory, shards=2):
        self.store = CheckpointStore(directory)
        self.shards = shards
        self.interval = 0
        self.last = None

    def write(self, kind, increments=(), differentials=()):
        """Writes the files of the next cut; returns its manifest, not committed."""
        self.interval += 1
        step = 10 * self.interval
        attempt = self.store.new_attempt_dir(step)
        if kind == "base":
            written = [("base", shard) for shard in range(self.shards)]
        else:
            written = [("increment", s) for s in increments]
            written += [("differential", s) for s in differentials]
        new = [self._segment(attempt, kind_of_file, shard) for kind_of_file, shard in written]
        sizes = {"dense.index": 3, "dense.data-00000-of-00001": 5}
        for name, size in sizes.items():
            files.write_durably(self.store.path(f"{attempt}/{name}"), b"d" * size)
        return Manifest(
            step=step,
            interval=self.interval,
            kind=kind,
            base_interval=self.interval if kind == "base" else self.last.base_interval,
            segments=extend_chain(self.last, new, kind=kind, interval=self.interval),
            groups=(group(num_shards=self.shards),),
            dense=DenseBundle(prefix=f"{attempt}/dense", files=sizes, variables=()),
        )

    def save(self, kind, increments=(), differentials=()):
        manifest = self.write(kind, increments, differentials)
        self.store.commit(manifest)
        self.last = manifest
        return manifest

    def _segment(self, attempt, kind, shard):
        name = f"{segment_prefix(0, shard, self.shards)}-{kind}.acp"
        files.write_durably(self.store.path(f"{attempt}/{name}"), bytes(self.interval))
        return segment(
            kind,
            self.interval,
            shard=shard,
            num_shards=self.shards,
            path=f"{attempt}/{name}",
            bytes=self.interval,
        )
