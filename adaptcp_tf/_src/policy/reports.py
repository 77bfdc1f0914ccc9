# SPDX-License-Identifier: Apache-2.0
"""What policies decide, and what they are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from adaptcp_tf._src.policy.rates import RateHistogram


@dataclasses.dataclass(frozen=True)
class Decision:
    """What the engine needs to know about the next checkpoint.

    Attributes:
        base: whether it holds every live row.
        hot_threshold: updates per interval from which a row is hot; above 1 none is.
        hysteresis: relative width of the band around the threshold in which a row keeps its class.
        stop_and_copy: whether training waits until all rows are copied, instead of saving those that
            it updates meanwhile.
        encoding: how float32 and float64 parameters are stored: "raw", which leaves it to the options,
            or, not exact, "float16", "bfloat16", or "int2", "int3", "int4" or "int8", with so many
            bits a value.
        slot_encoding: the same of the optimizer's slots.
    """

    base: bool
    hot_threshold: float
    hysteresis: float = 0.0
    stop_and_copy: bool = False
    encoding: str = "raw"
    slot_encoding: str = "raw"


@dataclasses.dataclass(frozen=True)
class CutReport:
    """What a policy learns from a committed checkpoint.

    Attributes:
        base: whether it was a base.
        rows_hot: rows written to differentials, or hot rows of a base.
        rows_cold: rows written to increments, or the other rows of a base.
        rows_live: rows of the tables at the cut.
        bytes: size of the new segments.
        stall_secs: for how long training stood still.
        lost_secs: by how many seconds the checkpoint made training longer, as far as known.
        seconds_to_durable: from the cut until the checkpoint was durable.
        interval_secs: from the cut before, or the start of the run, to this one.
        rates: measures how the rows' update rates are distributed; takes some milliseconds, and may
            be called from `observe` only.
    """

    base: bool
    rows_hot: int
    rows_cold: int
    rows_live: int
    bytes: int = 0
    stall_secs: float = 0.0
    lost_secs: float = 0.0
    seconds_to_durable: float = 0.0
    interval_secs: float = 0.0
    rates: Callable[[], RateHistogram] | None = None


@dataclasses.dataclass(frozen=True)
class RestoreSample:
    """What a policy learns from a restore.

    Attributes:
        bytes: bytes read.
        seconds: how long it took.
        stale_skip: share of the bytes of stale copies that did not have to be read, 0 to 1.
    """

    bytes: int
    seconds: float
    stale_skip: float


class Policy(Protocol):
    """Decides what the next checkpoint holds; called from one thread at a time.

    A policy may have two more methods: `observe_restore(sample: RestoreSample)`, to be told of
    restores, and `interval_secs() -> float | None`, which says with `save_freq="auto"` how many
    seconds to train between two checkpoints, or None while it does not know.
    """

    name: str

    def decide(self) -> Decision:
        """Returns what the next checkpoint shall be; the first of a run is a base anyway."""
        ...

    def observe(self, report: CutReport) -> None:
        """Learns from a checkpoint that was committed."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns what the manifest keeps of the policy, as JSON values."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues from the state in a manifest, which may be another policy's."""
        ...
