# SPDX-License-Identifier: Apache-2.0
"""The strategies by name."""

from __future__ import annotations

from adaptcp_tf import errors
from adaptcp_tf._src.policy.adaptive import Adaptive
from adaptcp_tf._src.policy.check_n_run import CheckNRun
from adaptcp_tf._src.policy.counting import Differential, Full, Incremental, IncrementalN
from adaptcp_tf._src.policy.reports import Policy

STRATEGIES = (
    "adaptive",
    "full",
    "incremental",
    "incremental_n",
    "differential",
    "check_n_run",
)


def make_policy(
    strategy: str | Policy,
    *,
    hot_threshold: float | None,
    hysteresis: float,
    base_every: int | None,
    mean_secs_between_failures: float | None = None,
) -> Policy:
    """Returns the policy of that name, or the policy itself.

    Raises:
        InvalidOptionError: there is no strategy of that name, or it lacks what it needs.
    """
    if not isinstance(strategy, str):
        return strategy
    if strategy == "full":
        return Full()
    if strategy == "incremental":
        return Incremental(base_every)
    if strategy == "incremental_n":
        if base_every is None:
            raise errors.InvalidOptionError(
                "Invalid value for base_every. Received: None. Expected: with the strategy "
                "'incremental_n', after how many checkpoints to take a base."
            )
        return IncrementalN(base_every)
    if strategy == "differential":
        return Differential(base_every)
    if strategy == "check_n_run":
        return CheckNRun()
    if strategy == "adaptive":
        return Adaptive(hot_threshold, hysteresis, base_every, mean_secs_between_failures)
    raise errors.InvalidOptionError(
        f"Invalid value for strategy. Received: {strategy!r}. Expected: one of "
        f"{', '.join(STRATEGIES)}, or a policy object."
    )
