# SPDX-License-Identifier: Apache-2.0
"""What the volume benchmark claims: the model predicts it, and the online threshold is nearly the best."""

import numpy as np
import pytest
from volume import Setting, measure
from workloads import streams

from adaptcp_tf._src.simulator import RowLayout


def results(stream, period, rho=1.0):
    warmup = -(-64 // period) * period
    setting = Setting(
        stream,
        period,
        rho,
        RowLayout.of_floats(4, slots=0),
        streams.make(stream, warmup + 2 * period, seed=0),
    )
    return {row["strategy"]: row for row in measure(setting)}


@pytest.mark.parametrize("rho", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("period", [10, 50])
def test_model_predicts_what_is_written_and_read(period, rho):
    rows = results("iid", period, rho)
    for name in ("incremental_n", "differential", "adaptive"):
        assert rows[name]["loss_to_model"] == pytest.approx(1, abs=0.05), name


def test_quantised_baseline_writes_the_same_rows_in_fewer_bytes():
    rows = results("iid", 10)
    exact, quantised = rows["check_n_run"], rows["check_n_run_4bit"]
    assert exact["rows_hot"] == quantised["rows_hot"] > 0
    # 16 bytes of values become 10, beside 15 of the key and what is known of it.
    assert quantised["bytes_written"] / exact["bytes_written"] == pytest.approx(25 / 31, rel=0.01)


@pytest.mark.parametrize("stream", ["iid", "drifting", "criteo_shrunken"])
def test_solved_threshold_is_within_a_tenth_of_the_best_in_hindsight(stream):
    rows = results(stream, 10)
    assert rows["adaptive"]["loss_to_hindsight"] < 1.1
    assert 0 < rows["adaptive"]["hot_threshold"] <= 1


def test_adaptive_loses_no_more_than_the_better_pure_strategy():
    for rho in (0.1, 1.0, 10.0):
        rows = results("iid", 10, rho)
        pure = min(rows[name]["loss"] for name in ("incremental_n", "differential"))
        assert rows["adaptive"]["loss"] <= 1.02 * pure


@pytest.mark.parametrize("name", streams.NAMES)
def test_streams_are_repeatable_and_rows_are_numbered_from_zero(name):
    one, other = (streams.make(name, 6, seed=3) for _ in range(2))
    assert len(one) == 6
    for a, b in zip(one, other):
        np.testing.assert_array_equal(a, b)
        assert len(np.unique(a)) == len(a)
    everything = np.unique(np.concatenate(one))
    assert everything[0] >= 0
    if name not in ("iid", "drifting"):
        np.testing.assert_array_equal(everything, np.arange(len(everything)))


def test_shrunken_stream_touches_as_many_rows_as_production():
    stream = streams.make("criteo_shrunken", 80, seed=0)
    rows = len(np.unique(np.concatenate(stream)))
    assert 0.10 <= np.mean([len(part) for part in stream[40:]]) / rows <= 0.25
