# SPDX-License-Identifier: Apache-2.0
"""The strategies that decide by counting checkpoints and rows: full, incremental, differential."""

from __future__ import annotations

from typing import Any

from adaptcp_tf._src.policy.reports import CutReport, Decision
from adaptcp_tf._src.policy.solver import ALL_COLD, ALL_HOT


class CountingPolicy:
    """A policy that takes a base every so many checkpoints, counted from the last base."""

    name = ""

    def __init__(self, base_every: int | None = None):
        self._base_every = base_every
        self._since_base = 0

    def base_is_due(self) -> bool:
        """Whether so many checkpoints have passed that the next is a base."""
        return self._base_every is not None and self._since_base + 1 >= self._base_every

    def observe(self, report: CutReport) -> None:
        self._since_base = 0 if report.base else self._since_base + 1

    def state(self) -> dict[str, Any]:
        return {"strategy": self.name, "since_base": self._since_base}

    def load_state(self, state: dict[str, Any]) -> None:
        self._since_base = int(state.get("since_base", 0))


class Full(CountingPolicy):
    """Every checkpoint is a base: large to write, one file a table to restore."""

    name = "full"

    def decide(self) -> Decision:
        return Decision(base=True, hot_threshold=ALL_COLD)


class Incremental(CountingPolicy):
    """Rows updated since the last checkpoint: small to write, the whole chain to restore."""

    name = "incremental"

    def decide(self) -> Decision:
        return Decision(base=self.base_is_due(), hot_threshold=ALL_COLD)


class Differential(CountingPolicy):
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
        due = self.base_is_due() if self._base_every is not None else self._base_pays()
        return Decision(base=due, hot_threshold=ALL_HOT)

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
        # A base's manifest was written before the policy learnt of it: what led to it is over.
        self._sizes = [float(size) for size in state.get("sizes", [])][: self._since_base]


class IncrementalN(Incremental):
    """Incr CKPT-N: rows updated since the last checkpoint, and a base every `base_every`."""

    name = "incremental_n"

    def __init__(self, base_every: int):
        super().__init__(base_every)
