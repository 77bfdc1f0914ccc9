# SPDX-License-Identifier: Apache-2.0
"""How far the tiers of storage are."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class StorageStats:
    """How far the two tiers are.

    Attributes:
        local_step: the newest step that is durable in the first tier, or None.
        remote_step: the newest step that is durable in the directory, or None.
        local_bytes: size of the files in the buffer, with those being written; 0 without one.
        uploaded_bytes: uploaded by this process.
        upload_retries: requests and uploads that were tried again.
        superseded: checkpoints that were not uploaded, since a newer one was.
        room_wait_secs: for how long training waited for room in the buffer.
    """

    local_step: int | None
    remote_step: int | None
    local_bytes: int = 0
    uploaded_bytes: int = 0
    upload_retries: int = 0
    superseded: int = 0
    room_wait_secs: float = 0.0
