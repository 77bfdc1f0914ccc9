# SPDX-License-Identifier: Apache-2.0
"""AdaptCP: hot rows into differentials, cold rows into increments, at a threshold solved online."""

from __future__ import annotations

import dataclasses
from typing import Any

from adaptcp_tf._src.policy.cost_meter import CostMeter
from adaptcp_tf._src.policy.counting import CountingPolicy
from adaptcp_tf._src.policy.reports import CutReport, Decision, RestoreSample
from adaptcp_tf._src.policy.solver import Solution, solve
from adaptcp_tf._src.policy.state import read_fields

# Where the cost model is indifferent when a row copy costs as much to read at restore, times the
# restores per base, as to write.
_UNSOLVED_THRESHOLD = 0.67
# Rates change over some sixteen intervals, so solving more often would find the same again. A young
# run solves after 1, 2, 4 and 8 checkpoints, as what it has measured grows.
_CHECKPOINTS_PER_SOLUTION = 16


class Adaptive(CountingPolicy):
    """AdaptCP: hot rows into differentials, cold rows into increments, split at a threshold.

    The threshold and the base period are solved from what checkpoints and restores cost in this very
    run, unless they are given.

    Args:
        hot_threshold: updates per interval from which a row is hot; None has it solved.
        hysteresis: relative width of the band in which a row keeps its class.
        base_every: take a base every so many checkpoints; None has it solved.
        mean_secs_between_failures: seconds of training between two restarts; None learns it.
    """

    name = "adaptive"

    def __init__(
        self,
        hot_threshold: float | None = None,
        hysteresis: float = 0.1,
        base_every: int | None = None,
        mean_secs_between_failures: float | None = None,
    ):
        super().__init__(base_every)
        self._hot_threshold = hot_threshold
        self._hysteresis = hysteresis
        self._meter = CostMeter(mean_secs_between_failures)
        self._solution: Solution | None = None
        self._since_solved = 0
        self._solve_after = 1

    def decide(self) -> Decision:
        threshold = self._hot_threshold
        if threshold is None:
            threshold = (
                _UNSOLVED_THRESHOLD if self._solution is None else self._solution.hot_threshold
            )
        return Decision(
            base=self.base_is_due(), hot_threshold=threshold, hysteresis=self._hysteresis
        )

    def base_is_due(self) -> bool:
        # With a threshold that the user chose there is nothing to solve.
        solved = self._base_every is None and self._hot_threshold is None
        if not solved or self._solution is None:
            return super().base_is_due()
        return self._since_base + 1 >= self._solution.base_period

    def observe(self, report: CutReport) -> None:
        super().observe(report)
        self._meter.observe(report)
        self._since_solved += 1
        due = self._since_solved >= self._solve_after
        # What a base costs says little about the deltas that training mostly writes.
        if self._hot_threshold is None and due and not report.base and report.rates is not None:
            self._solve(report)

    def _solve(self, report: CutReport) -> None:
        inputs = self._meter.inputs()
        if inputs is None:
            return
        self._solution = solve(inputs, report.rates(), base_period=self._base_every)
        self._since_solved = 0
        self._solve_after = min(2 * self._solve_after, _CHECKPOINTS_PER_SOLUTION)

    def observe_restore(self, sample: RestoreSample) -> None:
        """Learns from a restore of this run."""
        self._meter.observe_restore(sample)

    def interval_secs(self) -> float | None:
        """Seconds between two checkpoints that lose least; None while nothing is known."""
        return self._meter.interval_secs()

    def state(self) -> dict[str, Any]:
        inputs = self._meter.inputs()
        return {
            **super().state(),
            "hot_threshold": self.decide().hot_threshold,
            "meter": self._meter.state(),
            "interval_secs": self.interval_secs(),
            "inputs": None if inputs is None else dataclasses.asdict(inputs),
            "solution": None if self._solution is None else dataclasses.asdict(self._solution),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        if state.get("meter") is not None:
            self._meter.load_state(state["meter"])
        self._solution = read_fields(Solution, state.get("solution"))
