# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run as a user runs them and print the keys that others rely on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(name, *arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def report_of(name, *arguments):
    done = run_benchmark(name, *arguments, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_training_reports_every_strategy_at_every_interval():
    report = report_of(
        "training.py",
        *("--strategies", "none,tracking,adaptive,adaptive+prefetch"),
        *("--intervals", "4,2", "--rounds", 2),
        *("--rows", 2_000, "--batch", 128, "--profile"),
    )
    rows = {(row["strategy"], row["interval"]): row for row in report["results"]}
    adaptive = [(name, n) for name in ("adaptive", "adaptive+prefetch") for n in (4, 2)]
    assert list(rows) == [("none", None), ("tracking", None), *adaptive]
    assert rows["none", None]["ratio_to_none"] == 1
    assert [row["checkpoints"] for row in rows.values()] == [0, 0, 4, 8, 4, 8]
    for row in rows.values():
        assert row["samples_per_second"] > 0 and row["ratio_to_none"] > 0
    for contender in adaptive:
        row = rows[contender]
        assert row["bytes_written"] > 0
        assert 0 <= row["stall_ms_per_checkpoint"] <= row["stall_ms_max"]
        assert 0 <= row["share_saved_on_update"] <= 1
    assert report["conditions"]["arguments"]["seed"] == 0
    assert set(report["conditions"]) >= {"python", "packages", "cores", "memory_gib"}


def test_tracker_reports_time_and_memory():
    report = report_of("tracker.py", "--rows", 50_000, "--dirty", 500)
    assert report["rows"] == 50_000
    assert report["ns_per_key"] > 0 and report["ns_per_key_new_row"] > 0
    assert report["histogram_ms"] > 0 and report["solve_ms"] > 0
    assert 16 <= report["bytes_per_row"] <= report["bytes_per_row_all_updated"] < 100
    assert [one["rows"] for one in report["checkpoint"]] == [5_000, 50_000]
    assert report["checkpoint_ratio"] > 0


def test_restore_reports_every_peer():
    report = report_of("restore.py", "--rows", 20_000, "--rounds", 1)
    rows = {row["contender"]: row for row in report["results"]}
    assert list(rows) == ["adaptcp", "tfra", "upsert"]
    assert rows["adaptcp"]["ratio"] == 1
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in rows.values())


def test_slow_storage_slows_who_writes_one_stream():
    report = report_of(
        "slow_storage.py",
        *("--contenders", "none,incremental,adaptive,no_buffer"),
        *("--intervals", "5,10", "--checkpoints", 1, "--rounds", 1, "--repeats", 2),
        *("--stream", "production", "--rows", 5_000, "--batch", 128),
    )
    rows = {(row["contender"], row["interval"]): row for row in report["results"]}
    names = ["none", "incremental", "adaptive", "no_buffer"]
    assert list(rows) == [(name, n) for n in (5, 10) for name in names]
    assert report["conditions"]["stream_mib_per_sec"] > 0
    for name, n in rows:
        row = rows[name, n]
        # Twice, in each of two turns, one that is measured and one before.
        assert row["checkpoints"] == (0 if name == "none" else 8)
        assert row["cpu_ratio_to_none"] > 0
        assert row["ratio_to_none"] > 0 and row["adaptive_is_faster_by"] > 0
    assert rows["incremental", 5]["lost_percent"] > 0
    assert rows["adaptive", 5]["adaptive_is_faster_by"] == 1


def test_memory_reports_what_saving_and_restoring_take_beyond_tables_and_trackers():
    report = report_of("memory.py", "--rows", "20000", "--batch", 64, "--steps", 3)
    saving = {row["case"]: row for row in report["saving"]}
    cases = ("base", "increment", "base, buffer and upload", "base, slow store")
    assert list(saving) == [f"20,000 rows: {case}" for case in cases]
    for row in saving.values():
        assert row["rows"] == 20_000 and 0 < row["rows_saved"] <= 20_000
        assert row["steps_meanwhile"] >= 3
        # 16 bytes a row at least.
        assert row["tracker_mib"] > 20_000 * 16 / 2**20
        accounted = row["training_mib"] + row["tracker_growth_mib"] + row["extra_mib"]
        assert row["peak_mib"] == pytest.approx(accounted)
        assert row["within_limit"]
    restoring = {row["case"]: row for row in report["restoring"]}
    assert list(restoring) == ["20,000 rows: presized", "20,000 rows: default size"]
    for row in restoring.values():
        above = row["peak_mib"] - row["kept_mib"]
        assert row["peak_above_kept_mib"] == pytest.approx(above) and above >= 0
        assert row["within_limit"]
    assert {row["method"] for row in report["saving"]} <= {"VmHWM", "sampling"}


def test_restore_from_slow_storage_reports_ours_and_the_baselines():
    report = report_of(
        "restore.py",
        *("--remote", "--rows", 2_000, "--batch", 64, "--intervals", 4, "--base-every", 3),
        *("--rounds", 1, "--stream-mib-per-sec", 20, "--latency-ms", 1),
    )
    rows = {row["contender"]: row for row in report["results"]}
    baselines = ["check_n_run", "check_n_run_4bit", "incremental_n", "incremental"]
    fair = [f"{name}, our restore" for name in baselines]
    ablations = ["one stream", "cut by cut", "copy in the buffer"]
    assert list(rows) == ["adaptcp", *ablations, *baselines, *fair]
    assert rows["adaptcp"]["ratio"] == 1
    for row in rows.values():
        assert row["seconds"] >= row["seconds_lowest"] > 0 and row["ratio"] > 0
    # In order every copy is inserted; our restore leaves out the stale ones.
    assert rows["incremental"]["row_copies"] > rows["incremental, our restore"]["row_copies"]
    assert rows["incremental"]["segments"] == 5
    assert rows["incremental_n"]["segments"] == 2
    # One stream brings no more than its bandwidth; a copy in the buffer needs none of it.
    for name in ("check_n_run", "incremental_n", "incremental"):
        assert rows[name]["seconds"] >= rows[name]["stream_seconds"]
        assert rows[name]["published_ratio"] > 9
    assert rows["copy in the buffer"]["requests"] < rows["adaptcp"]["requests"]
    assert rows["check_n_run_4bit"]["mib_read"] < rows["check_n_run"]["mib_read"] / 2


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("training.py", ["--steps", 7, "--intervals", "5"], "--steps must be a multiple"),
        ("tracker.py", ["--rows", 100, "--dirty", 11], "--dirty must be at most a tenth"),
        ("memory.py", ["--rows", "1000,0"], "--steps must be positive"),
        ("restore.py", ["--peers", "tape"], "--peers must be some of tfra, upsert"),
        ("slow_storage.py", ["--contenders", "none"], "with adaptive, incremental, none among"),
        ("restore.py", ["--remote", "--intervals", 0], "numbers positive"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name, arguments, message):
    done = run_benchmark(name, *arguments)
    assert done.returncode == 2 and message in done.stderr
