# SPDX-License-Identifier: Apache-2.0
"""Strategies compete fairly: same input, same rows, whole intervals, ratios within one round."""

import dataclasses
import types

import numpy as np
import pytest
from workloads import digest
from workloads.criteo_stream import FEATURE_SHIFT, CriteoStream
from workloads.throughput import (
    NONE,
    TRACKING,
    Contender,
    Measured,
    Workload,
    compete,
    summarize,
    warmup_steps,
)


@pytest.fixture(scope="module")
def workload():
    return Workload.draw(rows=2_000, batch_size=64, dim=4, seed=5, batches=6)


@pytest.mark.parametrize("intervals", [[100], [10], [1], [100, 10, 1], [100, 50], [7, 3]])
def test_warmup_ends_in_the_middle_of_every_interval(intervals):
    steps = warmup_steps(intervals)
    assert steps >= max(20, *intervals)
    for interval in intervals:
        if interval > 1:
            assert 0.25 <= steps % interval / interval <= 0.75


def test_dataset_is_the_stream_and_starts_over_when_it_ends(workload):
    batches = list(workload.dataset(4, 4))
    assert len(batches) == 4
    stream = CriteoStream(64, seed=5)
    for (inputs, labels), index in zip(batches, [4, 5, 0, 1]):
        ids, dense, expected_labels = stream.batch(index)
        np.testing.assert_array_equal(inputs["ids"].numpy(), ids)
        np.testing.assert_array_equal(inputs["dense"].numpy(), dense)
        np.testing.assert_array_equal(labels.numpy(), expected_labels)


def test_tables_are_filled_with_the_most_frequent_ids_slots_included(workload, tmp_path):
    contender = Contender(NONE, None, workload, tmp_path)
    (group,) = digest.tables(contender.model)
    assert len(group) == 3
    for variable in group:
        keys, values = (tensor.numpy() for tensor in variable.export())
        assert set(keys) == set(CriteoStream(64, seed=5).popular_ids(2_000))
        assert (values >= 0).all()


def test_every_strategy_trains_to_the_same_bits_and_checkpoints_at_its_interval(workload, tmp_path):
    # TFRA knows tables by name: "none" is another test's, so tracking is the reference here.
    entries = [(TRACKING, None), ("incremental", 2), ("adaptive+prefetch", 4)]
    contenders = [Contender(*entry, workload, tmp_path) for entry in entries]
    said = []
    compete(contenders, rounds=2, steps=4, warmup=3, on_progress=said.append)
    assert len({digest.digest(one.model).total for one in contenders}) == 1
    assert [len(one.history()) for one in contenders] == [0, 8, 4]
    assert len(said) == 3 + 2 * 6
    for one in contenders:
        assert [len(measured.step_seconds) for measured in one.rounds] == [8, 8]
        one.close()


def test_features_are_spread_over_the_tables(workload, tmp_path):
    spread = dataclasses.replace(workload, num_tables=4)
    contender = Contender("full+prefetch", 3, spread, tmp_path)
    found = [set(group[0].export()[0].numpy()) for group in digest.tables(contender.model)]
    assert len(found) == 4 and sum(map(len, found)) == 2_000
    features = [{(key >> FEATURE_SHIFT) - 1 for key in keys} for keys in found]
    assert all(feature % 4 == table for table, some in enumerate(features) for feature in some)
    contender.warm_up(6)
    assert [one["kind"] for one in contender._checkpoint.history] == ["base", "base"]
    contender.close()


def test_turns_go_forth_and_back_in_every_round():
    turns = []
    contenders = [
        types.SimpleNamespace(
            name=name,
            interval=None,
            warm_up=lambda steps: None,
            start_round=lambda: None,
            run=lambda steps, lead_in, name=name: turns.append(name),
        )
        for name in "abc"
    ]
    compete(contenders, rounds=2, steps=1, warmup=1, on_progress=lambda line: None)
    assert "".join(turns) == "abccba" * 2


def measured(*step_seconds, checkpoints=()):
    """A contender that took these seconds for the one step of each of its rounds."""
    return types.SimpleNamespace(
        strategy="s",
        interval=1,
        rounds=[Measured([seconds], cpu_seconds=seconds / 2) for seconds in step_seconds],
        history=lambda: list(checkpoints),
    )


def test_ratio_is_the_median_of_the_ratios_within_rounds():
    # The machine was ten times slower in the third round, for both.
    row = summarize(measured(2.0, 2.5, 40.0), measured(1.0, 2.0, 10.0), batch_size=10)
    assert row["ratio_to_none"] == 0.5
    assert (row["ratio_to_none_lowest"], row["ratio_to_none_highest"]) == (0.25, 0.8)
    assert row["samples_per_second"] == pytest.approx(30 / 44.5)
    assert row["cpu_ratio_to_none"] == pytest.approx(13 / 44.5)
    assert row["step_ms_median"] == 2500


def test_stalls_and_bytes_are_those_of_the_checkpoints():
    rows = {"rows_saved_on_update": 1, "rows_drained": 6, "rows_prefetched": 3}
    checkpoints = [{"stall_ms": stall, "bytes": 10, **rows} for stall in (1.0, 9.0, 2.0)]
    row = summarize(measured(1.0, checkpoints=checkpoints), measured(1.0), batch_size=1)
    assert (row["stall_ms_per_checkpoint"], row["stall_ms_max"]) == (2.0, 9.0)
    assert (row["bytes_written"], row["checkpoints"]) == (30, 3)
    assert (row["share_saved_on_update"], row["rows_prefetched"]) == (0.1, 9)


def test_without_checkpoints_there_is_no_stall():
    row = summarize(measured(1.0), measured(1.0), batch_size=1)
    assert row["stall_ms_per_checkpoint"] is None and row["stall_ms_max"] is None
    assert (row["bytes_written"], row["checkpoints"]) == (0, 0)
    assert (row["share_saved_on_update"], row["rows_prefetched"]) == (None, 0)
