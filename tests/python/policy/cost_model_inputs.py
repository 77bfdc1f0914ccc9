# SPDX-License-Identifier: Apache-2.0
"""Inputs that the tests of the cost model share."""

from hypothesis import assume, settings
from hypothesis import strategies as st

from adaptcp_tf import cost_model

rates = st.floats(1e-12, 1.0)
shares = st.floats(0.0, 1.0)
ratios = st.floats(1e-2, 1e4)
quick = settings(max_examples=60)


@st.composite
def schedules(draw, longest=12):
    """Write weights and failure positions of a base period, some of both after the first."""
    length = draw(st.integers(2, longest))
    parts = st.lists(st.integers(0, 100), min_size=length, max_size=length)
    weights, positions = draw(parts), draw(parts)
    assume(any(weights[1:]) and any(positions[1:]))
    total = sum(positions)
    return [float(weight) for weight in weights], [part / total for part in positions]


def excess(rate, checkpoints, rho, stale_skip=0.0, weights=None, positions=None):
    schedule = {"write_weights": weights, "failure_distribution": positions}
    incremental = cost_model.incremental_cost(
        rate, checkpoints, 1.0, rho, stale_skip=stale_skip, **schedule
    )
    return cost_model.differential_cost(rate, checkpoints, 1.0, rho, **schedule) - incremental
