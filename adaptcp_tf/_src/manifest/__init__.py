# SPDX-License-Identifier: Apache-2.0
"""The truth about checkpoints: manifests, chains of segments, the store, retention."""

from adaptcp_tf._src.manifest.chain import extend_chain, restore_order
from adaptcp_tf._src.manifest.codec import decode_manifest, encode_manifest
from adaptcp_tf._src.manifest.identities import identity
from adaptcp_tf._src.manifest.names import segment_prefix
from adaptcp_tf._src.manifest.retention import (
    CollectReport,
    DeletionPlan,
    collect,
    discard_attempt,
    garbage_of,
    plan_deletions,
)
from adaptcp_tf._src.manifest.store import CheckpointStore
from adaptcp_tf._src.manifest.tiers import Tiers
from adaptcp_tf._src.manifest.types import (
    DenseBundle,
    DenseVariable,
    GroupSpec,
    Manifest,
    Position,
    Segment,
    TableSpec,
)

__all__ = [
    "CheckpointStore",
    "CollectReport",
    "DeletionPlan",
    "DenseBundle",
    "DenseVariable",
    "GroupSpec",
    "Manifest",
    "Position",
    "Segment",
    "TableSpec",
    "Tiers",
    "collect",
    "decode_manifest",
    "discard_attempt",
    "encode_manifest",
    "extend_chain",
    "garbage_of",
    "identity",
    "plan_deletions",
    "restore_order",
    "segment_prefix",
]
