# SPDX-License-Identifier: Apache-2.0
"""The published order of strategies, from a checkpoint every 10,000 batches to every 100."""

import argparse

import frequency
import pytest

ARGUMENTS = argparse.Namespace(
    rows=880e6,
    skew=1.05,
    batch=2048,
    lookups=26,
    step_secs=0.1,
    batches=[10_000, 1_000, 100],
    intervals=60,
    base_every=25,
    streams=8,
    shards=64,
    dim=16,
    slots=2,
    seed=0,
)
BASELINES = ("incremental", "incremental_n", "check_n_run", "full")


@pytest.fixture(scope="module")
def results():
    rows = frequency.compare(ARGUMENTS, frequency.calibrate(ARGUMENTS))
    return {(row["batches"], row["strategy"]): row for row in rows}


@pytest.mark.parametrize("batches", ARGUMENTS.batches)
def test_strategies_come_in_the_published_order(results, batches):
    slowed = [results[batches, name]["slowed_percent"] for name in ("adaptive", *BASELINES)]
    assert slowed == sorted(slowed)


def test_adaptive_restores_fastest_and_plain_incremental_slowest(results):
    """As published: Check-N-Run before Incr CKPT-N before plain incremental."""
    for batches in ARGUMENTS.batches:
        order = ("check_n_run", "incremental_n", "incremental")
        ratios = [results[batches, name]["restore_of_adaptive"] for name in order]
        assert 1 < ratios[0] < ratios[1] < ratios[2]


def test_every_strategy_slows_training_more_the_more_often_it_saves(results):
    for name in BASELINES:
        slowed = [results[batches, name]["slowed_percent"] for batches in ARGUMENTS.batches]
        assert slowed == sorted(slowed)


def test_calibration_gives_what_was_published(results):
    incremental = results[100, "incremental"]["slowed_percent"]
    assert incremental == pytest.approx(frequency.PUBLISHED["incremental"], abs=0.5)


def test_shortest_interval_is_near_what_was_published_and_ours_is_below(results):
    check_n_run = results[100, "check_n_run"]["slowed_percent"]
    assert check_n_run == pytest.approx(frequency.PUBLISHED["check_n_run"], abs=5)
    assert results[100, "adaptive"]["slowed_percent"] < frequency.PUBLISHED["adaptive"]


def test_quantisation_saves_most_of_what_check_n_run_writes(results):
    for batches in ARGUMENTS.batches:
        exact = results[batches, "check_n_run"]["bytes_per_checkpoint"]
        quantised = results[batches, "check_n_run_4bit"]["bytes_per_checkpoint"]
        assert quantised < 0.4 * exact
