# SPDX-License-Identifier: Apache-2.0
"""Check-N-Run, and the stop-and-copy snapshot that it shares with other baselines."""

from __future__ import annotations

import dataclasses
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.policy.counting import Differential
from adaptcp_tf._src.policy.reports import CutReport, Decision, Policy

_RAW = "raw"
# Bits a quantised value may have, and with how many restores the fewer of them do.
_BITS = (2, 3, 4, 8)
_MOST_RESTORES = {2: 1, 3: 3, 4: 20}


class StopAndCopy:
    """Another policy, with a snapshot for which training waits until the rows are copied in memory.

    Without it rows are saved in the background, or just before an update changes them.

    Args:
        policy: what decides the rest.
    """

    def __init__(self, policy: Policy):
        self._policy = policy
        self.name = policy.name

    def decide(self) -> Decision:
        return dataclasses.replace(self._policy.decide(), stop_and_copy=True)

    def observe(self, report: CutReport) -> None:
        self._policy.observe(report)

    def state(self) -> dict[str, Any]:
        return self._policy.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self._policy.load_state(state)

    def __getattr__(self, name: str) -> Any:
        # The two methods that a policy need not have.
        if name in ("observe_restore", "interval_secs"):
            return getattr(self._policy, name)
        raise AttributeError(name)


class CheckNRun(Differential):
    """Check-N-Run (Eisenman et al., NSDI 2022): differentials, a base when it pays, stop-and-copy.

    Training waits until the rows are copied in memory; quantising and writing go on beside it.

    Args:
        bits: 2, 3, 4 or 8 bits a value, between the least and the largest of its vector; up to 4 bits
            the range is narrowed where that makes the squared error less. None keeps all bits.
            What is quantised is no longer exact: see `bits_for_restores`.
        quantize_slots: whether optimizer slots are quantised too. A second moment that comes back as
            nearly 0 makes the next step of Adam large; the published system's only slot is one
            value a row.

    Raises:
        InvalidOptionError: another number of bits.
    """

    name = "check_n_run"

    def __init__(self, bits: int | None = None, *, quantize_slots: bool = False):
        super().__init__()
        if bits not in (None, *_BITS):
            raise errors.InvalidOptionError(
                f"Invalid value for bits. Received: {bits!r}. Expected: 2, 3, 4, 8, or None."
            )
        self._encoding = _RAW if bits is None else f"int{bits}"
        self._slot_encoding = self._encoding if quantize_slots else _RAW

    def decide(self) -> Decision:
        return dataclasses.replace(
            super().decide(),
            stop_and_copy=True,
            encoding=self._encoding,
            slot_encoding=self._slot_encoding,
        )


def bits_for_restores(expected_restores: float) -> int:
    """Returns the fewest bits with which Check-N-Run's authors saw no loss of accuracy.

    Each restore adds its rounding to the model, so a run that is restored more often needs more bits.

    Example:
        >>> CheckNRun(bits=bits_for_restores(3))

    Args:
        expected_restores: how often a run is going to be restored.

    Returns:
        2, 3, 4 or 8. Source: Eisenman et al., Check-N-Run, NSDI 2022.

    Raises:
        InvalidOptionError: a negative number.
    """
    if not expected_restores >= 0:
        raise errors.InvalidOptionError(
            f"Invalid value for expected_restores. Received: {expected_restores!r}. Expected: a "
            "number of at least 0."
        )
    for bits, most_restores in _MOST_RESTORES.items():
        if expected_restores <= most_restores:
            return bits
    return _BITS[-1]
