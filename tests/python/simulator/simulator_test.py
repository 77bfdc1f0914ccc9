# SPDX-License-Identifier: Apache-2.0
"""Simulated checkpoints against real ones of the same updates: same rows, same bytes, same rates."""

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.policy import make_policy
from adaptcp_tf._src.simulator import RowLayout, SimulatedRows, Table, simulate
from tests.support import tables

DIM = 4
INTERVALS = 60
POLICIES = {
    "full": {},
    "incremental": {},
    "incremental_n": {"base_every": 7},
    "differential": {},
    "adaptive": {"hot_threshold": 0.4, "hysteresis": 0.1},
    "adaptive_switching": {"hot_threshold": 0.3, "hysteresis": 0.0, "base_every": 25},
}


def policy(name):
    return make_policy(
        name.split("_switching")[0],
        **{"hot_threshold": None, "hysteresis": 0.1, "base_every": None, **POLICIES[name]},
    )


def stream(seed, intervals=INTERVALS):
    """Rows of all rates, of which a third change their rate half-way, and new rows all the time."""
    rng = np.random.default_rng(seed)
    probabilities = rng.random(300) ** 3
    for interval in range(intervals):
        if interval == intervals // 2:
            probabilities[:100] = rng.permutation(probabilities[:100])
        updated = np.flatnonzero(rng.random(300) < probabilities)
        yield np.concatenate([updated, 300 + rng.integers(0, 20 * (interval + 1), 10)])


def real_run(directory, name, half_life, updates):
    """Yields (report, bytes of segments, policy's state) of the engine's checkpoints."""
    variable = tables.make_variable(dim=DIM)
    options = acp.CheckpointOptions(
        strategy=policy(name),
        rate_half_life_intervals=half_life,
        max_to_keep=None,
        when_busy="wait",
    )
    manager = acp.CheckpointManager(str(directory), variables=[variable], options=options)
    for step, updated in enumerate(updates, start=1):
        numbers = np.unique(updated)
        keys = tables.make_keys(variable.key_dtype, numbers)
        variable.upsert(keys, tables.make_rows(tf.float32, DIM, numbers, seed=step))
        manager.save(step)
        manager.wait()
        yield manager.reports[-1], CheckpointStore(str(directory)).read(step)
    (shard,) = manager._groups[0].shards
    yield shard.rates()
    manager.close()


@pytest.mark.parametrize("half_life", [16.0, 3.0])
@pytest.mark.parametrize("name", POLICIES)
def test_rows_and_bytes_are_those_of_the_engine(tmp_path, name, half_life):
    *real, _ = real_run(tmp_path, name, half_life, stream(1))
    layout = RowLayout("emb", (Table("parameter", "float32", 4 * DIM),))
    simulated = simulate(
        stream(1),
        policy(name),
        layout=layout,
        interval_secs=1.0,
        rate_half_life_intervals=half_life,
    )
    for (report, manifest), checkpoint in zip(real, simulated):
        new = [s for s in manifest.segments if s.interval == manifest.interval]
        assert (checkpoint.rows_hot, checkpoint.rows_cold) == (report.rows_hot, report.rows_cold)
        assert checkpoint.base == (report.kind == "base")
        assert checkpoint.bytes == sum(segment.bytes for segment in new)
        assert checkpoint.chain_rows == sum(segment.rows for segment in manifest.segments)
        assert checkpoint.chain_bytes == sum(segment.bytes for segment in manifest.segments)


def test_rates_are_those_of_the_engine(tmp_path):
    *_, (rows, rate_sums) = real_run(tmp_path, "incremental", 16.0, stream(2))
    simulated = SimulatedRows()
    incremental = policy("incremental")
    for updated in stream(2):
        simulated.update(updated)
        simulated.cut(incremental.decide(), base=False)
    rates = simulated.rates()
    np.testing.assert_array_equal(rates.rows, rows)
    np.testing.assert_allclose(rates.rates * rates.rows, rate_sums, rtol=1e-12)


def test_segment_of_no_rows_is_no_file():
    assert RowLayout.of_floats(16, slots=2).segment_bytes(0) == 0


def test_bytes_follow_the_rows():
    layout = RowLayout.of_floats(16, slots=2)
    per_row = (layout.segment_bytes(1_000_000) - layout.segment_bytes(500_000)) / 500_000
    assert per_row == pytest.approx(3 * 64 + 15, rel=0.001)
