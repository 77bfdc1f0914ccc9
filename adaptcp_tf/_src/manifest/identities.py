# SPDX-License-Identifier: Apache-2.0
"""What tells a checkpoint from all others, whatever files its rows are in."""

from __future__ import annotations

import json

from adaptcp_tf._src.manifest.codec import encode_manifest
from adaptcp_tf._src.manifest.types import Manifest
from adaptcp_tf._src.storage import checksums

# Of version 1 of the format, and not what a compaction replaces: kind, base_interval, segments and
# their totals. Fields that a later version adds must stay out, or identities would change with it.
_FIELDS = (
    "step",
    "interval",
    "wall_time",
    "position",
    "dense",
    "groups",
    "counters",
    "policy",
    "versions",
)


def identity(manifest: Manifest) -> str:
    """Returns what tells a checkpoint from all others, also from one of the same step.

    A compaction keeps it. A checkpoint that was saved again has another: it was taken at another
    instant, and the directory of its dense variables has a random name.

    Example:
        >>> identity(manifest)[:7]
        'sha256:'

    Args:
        manifest: the checkpoint.
    """
    fields = json.loads(encode_manifest(manifest))
    return checksums.of_json({name: fields[name] for name in _FIELDS})
