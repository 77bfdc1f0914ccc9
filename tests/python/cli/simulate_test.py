# SPDX-License-Identifier: Apache-2.0
"""`adaptcp simulate`: what it prints, refuses, and that a sample stands for all rows."""

import json
import subprocess
import sys

import numpy as np
import pytest

from adaptcp_tf._src.policy import IncrementalN
from adaptcp_tf._src.simulator import RowLayout, ZipfPopulation, simulate
from adaptcp_tf.cli import main


def results(capsys, *arguments):
    assert main(["simulate", "--json", "--intervals", "80", *arguments]) == 0
    output = json.loads(capsys.readouterr().out)
    return {row["strategy"]: row for row in output["results"]}


def test_json_has_a_row_for_each_strategy(capsys):
    rows = results(capsys, "--rows", "100000", "--updates", "50000", "--base-every", "20")
    assert list(rows) == ["full", "incremental_n", "differential", "adaptive"]
    full, incremental = rows["full"], rows["incremental_n"]
    assert full["bases"] == full["checkpoints"] == 48
    assert incremental["bytes_per_checkpoint"] < full["bytes_per_checkpoint"]
    assert incremental["restore_bytes"] > full["restore_bytes"]
    assert full["hot_threshold"] is None
    for row in rows.values():
        assert row["write_secs"] == pytest.approx(row["bytes_per_checkpoint"] / (200 << 20))


def test_table_fits_eighty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["simulate", "--rows", "1e10", "--updates", "1e8", "--intervals", "40"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.strip().startswith("adaptive") for line in lines)
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)


def test_shards_and_bandwidth_make_it_faster_not_smaller(capsys):
    slow = results(capsys, "--rows", "1e6", "--strategies", "incremental")["incremental"]
    fast = results(capsys, *("--rows", "1e6", "--strategies", "incremental"), "--shards", "8")[
        "incremental"
    ]
    assert fast["bytes_per_checkpoint"] == slow["bytes_per_checkpoint"]
    assert fast["restore_secs"] == pytest.approx(slow["restore_secs"] / 8)


def test_more_frequent_checkpoints_cost_full_ones_most(capsys):
    """The order of the published comparison: the shorter the interval, the more strategies differ."""
    lost = {}
    for interval in (10_000, 100):
        rows = results(
            capsys,
            *("--rows", "1e9", "--updates", str(interval * 50_000)),
            *("--interval-secs", str(interval * 0.1), "--lost-share", "1", "--shards", "64"),
        )
        lost[interval] = {name: row["training_lost_percent"] for name, row in rows.items()}
    for interval in lost:
        assert lost[interval]["adaptive"] <= 1.05 * lost[interval]["incremental_n"]
        assert lost[interval]["incremental_n"] < lost[interval]["differential"]
        assert lost[interval]["differential"] <= lost[interval]["full"]
    assert (
        lost[100]["full"] / lost[100]["adaptive"] > lost[10_000]["full"] / lost[10_000]["adaptive"]
    )


def test_published_baselines_stop_and_copy_and_have_one_stream(capsys):
    size = ("--rows", "1e6", "--updates", "500000", "--interval-secs", "10", "--streams", "4")
    strategies = ("--strategies", "incremental,incremental_n,check_n_run,adaptive")
    slow = ("--write-mib-per-sec", "2", "--mtbf-hours", "1000")
    fair = results(capsys, *size, *strategies, *slow)
    published = results(capsys, *size, *strategies, *slow, "--as-published")
    for name in ("incremental", "incremental_n", "check_n_run"):
        ratio = published[name]["write_secs"] / published[name]["bytes_per_checkpoint"]
        assert ratio == pytest.approx(1 / (2 << 20))
        assert published[name]["training_slowed_percent"] > fair[name]["training_slowed_percent"]
    assert published["adaptive"] == fair["adaptive"]
    assert (
        published["adaptive"]["training_slowed_percent"]
        < published["incremental"]["training_slowed_percent"]
        < published["incremental_n"]["training_slowed_percent"]
        < published["check_n_run"]["training_slowed_percent"]
    )


def test_quantised_check_n_run_writes_less(capsys):
    size = ("--rows", "100000", "--updates", "50000", "--strategies", "check_n_run")
    exact = results(capsys, *size)["check_n_run"]["bytes_per_checkpoint"]
    quantised = results(capsys, *size, "--bits", "2")["check_n_run"]["bytes_per_checkpoint"]
    # 192 bytes of values become 3 x 12, beside 15 of the key.
    assert quantised / exact == pytest.approx((15 + 36) / (15 + 192), rel=0.02)


def test_trace_is_taken_line_by_line(capsys, tmp_path):
    trace = tmp_path / "trace"
    trace.write_text("0 1 2 3\n1 2\n2 2 3\n\n", encoding="ascii")
    rows = results(capsys, "--trace", str(trace), "--strategies", "incremental")
    assert rows["incremental"]["rows"] == 4
    assert rows["incremental"]["checkpoints"] == 2
    layout = RowLayout.of_floats(16, slots=2)
    assert rows["incremental"]["bytes_per_checkpoint"] == layout.segment_bytes(2) / 2


@pytest.mark.parametrize("content", ["0 x\n", "0 -1\n", "1.5\n"])
def test_damaged_trace_is_refused_with_its_line(capsys, tmp_path, content):
    trace = tmp_path / "trace"
    trace.write_text("0\n" + content, encoding="ascii")
    assert main(["simulate", "--trace", str(trace)]) == 2
    assert f"{trace}, line 2: expected numbers of rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--strategies", "sometimes"],
        ["--rows", "0"],
        ["--interval-secs", "nan"],
        ["--lost-share", "2"],
        ["--streams", "0"],
        ["--trace", "/nowhere/at/all"],
    ],
)
def test_wrong_use_is_told(capsys, arguments):
    assert main(["simulate", *arguments]) == 2
    assert "adaptcp simulate: " in capsys.readouterr().err


def test_command_is_a_module_too():
    done = subprocess.run(
        [sys.executable, "-m", "adaptcp_tf.cli", "simulate", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Zipf" in done.stdout


def run(population, intervals=60):
    """Rows written and chain rows of the second half."""
    layout = RowLayout.of_floats(4, slots=0)
    checkpoints = list(
        simulate(
            population.updates(intervals),
            IncrementalN(20),
            layout=layout,
            interval_secs=1.0,
            weights=population.weights,
        )
    )[intervals // 2 :]
    return [
        np.mean([one.rows_hot + one.rows_cold for one in checkpoints if not one.base]),
        np.mean([one.chain_rows for one in checkpoints]),
        checkpoints[-1].rows_live,
    ]


def test_sample_stands_for_all_rows():
    everything = run(ZipfPopulation(100_000, 30_000, sample_rows=200_000))
    sampled = run(ZipfPopulation(100_000, 30_000, sample_rows=10_000))
    np.testing.assert_allclose(sampled, everything, rtol=0.03)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.05, 1.3])
def test_rates_are_those_of_zipfs_law(exponent):
    rows, updates = 3_000_000, 1000.0
    population = ZipfPopulation(rows, updates, exponent)
    assert population.weights.sum() == pytest.approx(rows)
    popularity = np.arange(1, rows + 1, dtype=np.float64) ** -exponent
    expected = -np.expm1(-updates * population.ranks**-exponent / popularity.sum())
    np.testing.assert_allclose(population.rates, expected, rtol=0.02)


def test_ten_billion_rows_are_as_quick_as_a_million():
    population = ZipfPopulation(10**10, updates=1e8)
    assert len(population.rates) <= 200_000
    assert population.weights.sum() == pytest.approx(1e10)
