# SPDX-License-Identifier: Apache-2.0
"""How rows are stored: what policy and options say together, and who insists on every bit."""

from __future__ import annotations

import dataclasses

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.options import CheckpointOptions
from adaptcp_tf._src.manifest import Manifest
from adaptcp_tf._src.manifest.types import ENCODINGS, RAW
from adaptcp_tf._src.policy import Decision, Policy


def decide(policy: Policy, options: CheckpointOptions) -> Decision:
    """Returns what the policy wants, with the encodings of the options where it wants none.

    Raises:
        InvalidOptionError: it wants fewer bits, and the options all of them; or what cannot be.
    """
    decision = policy.decide()
    encoding, slot_encoding = (
        option if wanted == RAW else wanted
        for wanted, option in (
            (decision.encoding, options.encoding),
            (decision.slot_encoding, options.slot_encoding),
        )
    )
    sound = decision.hot_threshold >= 0 and decision.hysteresis >= 0
    if not sound or not {encoding, slot_encoding} <= set(ENCODINGS):
        raise errors.InvalidOptionError(
            f"The strategy {policy.name!r} decided what cannot be. Received: {decision}. Expected: "
            f"a hot threshold and a hysteresis of at least 0, encodings of {', '.join(ENCODINGS)}."
        )
    if options.exact and (encoding, slot_encoding) != (RAW, RAW):
        raise errors.InvalidOptionError(
            f"The strategy {policy.name!r} stores rows as {encoding} and slots as {slot_encoding}. "
            f"Received: exact=True. Expected: {RAW} for both."
        )
    return dataclasses.replace(decision, encoding=encoding, slot_encoding=slot_encoding)


def check_exact(manifest: Manifest) -> None:
    """Raises unless a checkpoint holds every bit.

    Raises:
        InexactCheckpointError: it does not.
    """
    if not manifest.exact:
        raise errors.InexactCheckpointError(
            f"The checkpoint of step {manifest.step} does not hold every bit. Received: rows stored "
            f"as {', '.join(manifest.encodings)}, exact=True. Restore with exact=False if near "
            "enough is good enough."
        )
