# SPDX-License-Identifier: Apache-2.0
"""Simulated checkpoints against real ones of the same updates: same rows, same bytes, same rates."""

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.policy import CheckNRun, Incremental, StopAndCopy, make_policy
from adaptcp_tf._src.simulator import RowLayout, SimulatedRows, Storage, Table, simulate
from tests.support import models, tables

DIM = 4
INTERVALS = 60
POLICIES = {
    "check_n_run": {},
    "full": {},
    "incremental": {},
    "incremental_n": {"base_every": 7},
    "differential": {},
    "adaptive": {"hot_threshold": 0.4, "hysteresis": 0.1},
    "adaptive_switching": {"hot_threshold": 0.3, "hysteresis": 0.0, "base_every": 25},
}

QUANTISED = {
    "check_n_run_2bit": {"bits": 2},
    "check_n_run_3bit_slots": {"bits": 3, "quantize_slots": True},
}


def policy(name):
    if name in QUANTISED:
        return CheckNRun(**QUANTISED[name])
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
@pytest.mark.parametrize("name", [*POLICIES, *QUANTISED])
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


@pytest.mark.parametrize("bits", [{}, {"bits": 2}, {"bits": 2, "quantize_slots": True}])
def test_slots_are_counted_as_the_engine_writes_them(tmp_path, bits):
    model = models.build()
    options = acp.CheckpointOptions(strategy=CheckNRun(**bits), max_to_keep=None, when_busy="wait")
    manager = acp.CheckpointManager(str(tmp_path), model=model, options=options)
    batches = list(models.dataset(6))
    for step, batch in enumerate(batches, start=1):
        models.train(model, [batch])
        manager.save(step)
    manager.close()
    (group,) = CheckpointStore(str(tmp_path)).read(1).groups
    assert len(group.tables) == 3
    layout = RowLayout(group.name, tuple(Table(t.name, t.dtype, 4 * t.dim) for t in group.tables))
    simulated = simulate(
        [batch[0]["ids"].numpy().ravel() for batch in batches],
        CheckNRun(**bits),
        layout=layout,
        interval_secs=1.0,
    )
    for report, checkpoint in zip(manager.reports, simulated):
        manifest = CheckpointStore(str(tmp_path)).read(report.step)
        new = [s for s in manifest.segments if s.interval == manifest.interval]
        assert checkpoint.bytes == sum(segment.bytes for segment in new)


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


def lost(policy, storage, **arguments):
    """Per checkpoint (bytes, stall, lost seconds) of ten intervals that update the same 1000 rows."""
    return [(one.bytes, one.stall_secs, one.lost_secs) for one in run(policy, storage, **arguments)]


def run(policy, storage, interval_secs=1.0, **arguments):
    return simulate(
        [np.arange(1000)] * 10,
        policy,
        layout=RowLayout.of_floats(16, slots=2),
        interval_secs=interval_secs,
        storage=storage,
        **arguments,
    )


def test_training_waits_for_what_takes_longer_than_the_interval():
    storage = Storage(write_secs_per_byte=1e-5, lost_secs_per_byte=1e-7)
    for written, stall, secs in lost(Incremental(), storage):
        assert secs == pytest.approx(written * 1e-5 - 1.0)
        assert stall == pytest.approx(secs - written * 1e-7)
    for _, stall, _ in lost(Incremental(), storage, interval_secs=10.0):
        assert stall == 0


def test_checkpoints_are_skipped_rather_than_waited_for():
    # 1000 rows are some 207 kB: 2.07 s of writing, so that only every third is taken.
    storage = Storage(write_secs_per_byte=1e-5, lost_secs_per_byte=1e-7)
    taken = list(run(Incremental(), storage, when_busy="skip"))
    assert [one.interval_secs for one in taken] == [1.0, 3.0, 3.0, 3.0]
    assert [one.rows_cold for one in taken] == [1000] * 4
    for one in taken:
        assert (one.stall_secs, one.lost_secs) == (0, pytest.approx(one.bytes * 1e-7))


def test_synchronous_writing_is_lost_once():
    storage = Storage(write_secs_per_byte=1e-5, lost_secs_per_byte=1e-5)
    for written, stall, secs in lost(Incremental(), storage):
        assert (stall, secs) == (0, pytest.approx(written * 1e-5))


def test_training_waits_for_a_stop_and_copy_snapshot():
    storage = Storage(copy_secs_per_byte=1e-6, lost_secs_per_byte=0.0)
    for _, stall, secs in lost(StopAndCopy(Incremental()), storage):
        assert stall == secs == pytest.approx(1000 * 192 * 1e-6)


@pytest.mark.parametrize(
    ("encoding", "row_bytes"),
    [("raw", 64), ("float16", 32), ("bfloat16", 32), ("int8", 24), ("int3", 14)],
)
def test_encodings_make_rows_smaller(encoding, row_bytes):
    layout = RowLayout.of_floats(16, slots=1)
    sizes = [layout.segment_bytes(rows, encoding) for rows in (100, 200)]
    assert sizes[1] - sizes[0] == 100 * (15 + row_bytes + 64)


def test_segment_of_no_rows_is_no_file():
    assert RowLayout.of_floats(16, slots=2).segment_bytes(0) == 0


def test_bytes_follow_the_rows():
    layout = RowLayout.of_floats(16, slots=2)
    per_row = (layout.segment_bytes(1_000_000) - layout.segment_bytes(500_000)) / 500_000
    assert per_row == pytest.approx(3 * 64 + 15, rel=0.001)
