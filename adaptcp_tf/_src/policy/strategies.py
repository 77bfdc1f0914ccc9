# SPDX-License-Identifier: Apache-2.0
"""The strategies: each decides, per checkpoint, the hot threshold and whether it is a base."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from adaptcp_tf import errors

# An update rate is at most 1, so nothing is hot above it.
_ALL_COLD = 2.0
_ALL_HOT = 0.0


@dataclasses.dataclass(frozen=True)
class Decision:
    """What the engine needs to know about the next checkpoint.

    Attributes:
        base: whether it holds every live row.
        hot_threshold: updates per interval from which a row is hot; above 1 none is.
        hysteresis: relative width of the band around the threshold in which a row keeps its class.
    """

    base: bool
    hot_threshold: float
    hysteresis: float = 0.0


@dataclasses.dataclass(frozen=True)
class CutReport:
    """What a policy learns from a committed checkpoint.

    Attributes:
        base: whether it was a base.
        rows_hot: rows written to differentials, or hot rows of a base.
        rows_cold: rows written to increments, or the other rows of a base.
        rows_live: rows of the tables at the cut.
    """

    base: bool
    rows_hot: int
    rows_cold: int
    rows_live: int


class Policy(Protocol):
    """Decides what the next checkpoint holds; called from one thread at a time."""

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


class _CountingPolicy:
    """A policy that takes a base every so many checkpoints, counted from the last base."""

    name = ""

    def __init__(self, base_every: int | None = None):
        self._base_every = base_every
        self._since_base = 0

    def _base_is_due(self) -> bool:
        return self._base_every is not None and self._since_base + 1 >= self._base_every

    def observe(self, report: CutReport) -> None:
        self._since_base = 0 if report.base else self._since_base + 1

    def state(self) -> dict[str, Any]:
        return {"strategy": self.name, "since_base": self._since_base}

    def load_state(self, state: dict[str, Any]) -> None:
        self._since_base = int(state.get("since_base", 0))


class Full(_CountingPolicy):
    """Every checkpoint is a base: large to write, one file a table to restore."""

    name = "full"

    def decide(self) -> Decision:
        return Decision(base=True, hot_threshold=_ALL_COLD)


class Incremental(_CountingPolicy):
    """Rows updated since the last checkpoint: small to write, the whole chain to restore."""

    name = "incremental"

    def decide(self) -> Decision:
        return Decision(base=self._base_is_due(), hot_threshold=_ALL_COLD)


class Differential(_CountingPolicy):
    """Rows updated since the base, until a new base pays.

    Without `base_every`, a base is taken by Check-N-Run's rule (Eisenman et al., NSDI 2022): with
    S_1..S_i the sizes of the differentials since the base relative to a full checkpoint, as soon as
    1 + S_1 + ... + S_i <= (i + 1) S_i.
    """

    name = "differential"

    def __init__(self, base_every: int | None = None):
        super().__init__(base_every)
        self._sizes: list[float] = []

    def decide(self) -> Decision:
        due = self._base_is_due() if self._base_every is not None else self._base_pays()
        return Decision(base=due, hot_threshold=_ALL_HOT)

    def _base_pays(self) -> bool:
        if not self._sizes:
            return False
        return 1 + sum(self._sizes) <= (len(self._sizes) + 1) * self._sizes[-1]

    def observe(self, report: CutReport) -> None:
        super().observe(report)
        if report.base:
            self._sizes = []
        else:
            self._sizes.append((report.rows_hot + report.rows_cold) / max(1, report.rows_live))

    def state(self) -> dict[str, Any]:
        return {**super().state(), "sizes": self._sizes}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self._sizes = [float(size) for size in state.get("sizes", [])]


class Adaptive(_CountingPolicy):
    """AdaptCP: hot rows into differentials, cold rows into increments, split at a threshold."""

    name = "adaptive"

    def __init__(
        self, hot_threshold: float, hysteresis: float = 0.1, base_every: int | None = None
    ):
        super().__init__(base_every)
        self._hot_threshold = hot_threshold
        self._hysteresis = hysteresis

    def decide(self) -> Decision:
        return Decision(
            base=self._base_is_due(),
            hot_threshold=self._hot_threshold,
            hysteresis=self._hysteresis,
        )

    def state(self) -> dict[str, Any]:
        return {**super().state(), "hot_threshold": self._hot_threshold}


STRATEGIES = ("adaptive", "full", "incremental", "differential")


def make_policy(
    strategy: str | Policy, *, hot_threshold: float, hysteresis: float, base_every: int | None
) -> Policy:
    """Returns the policy of that name, or the policy itself.

    Raises:
        InvalidOptionError: there is no strategy of that name.
    """
    if not isinstance(strategy, str):
        return strategy
    if strategy == "full":
        return Full()
    if strategy == "incremental":
        return Incremental(base_every)
    if strategy == "differential":
        return Differential(base_every)
    if strategy == "adaptive":
        return Adaptive(hot_threshold, hysteresis, base_every)
    raise errors.InvalidOptionError(
        f"Invalid value for strategy. Received: {strategy!r}. Expected: one of "
        f"{', '.join(STRATEGIES)}, or a policy object."
    )
