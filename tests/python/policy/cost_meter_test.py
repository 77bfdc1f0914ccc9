# SPDX-License-Identifier: Apache-2.0
"""What is learnt from checkpoints, restores and restarts."""

import dataclasses
import json

import pytest

from adaptcp_tf._src.policy import CutReport, RestoreSample
from adaptcp_tf._src.policy.cost_meter import CostMeter

DAY = 86400.0
REPORT = CutReport(
    base=False,
    rows_hot=300,
    rows_cold=700,
    rows_live=10_000,
    bytes=200_000,
    lost_secs=0.002,
    seconds_to_durable=0.5,
    interval_secs=10.0,
)


def test_nothing_is_known_before_the_first_checkpoint():
    assert CostMeter().inputs() is None


def test_costs_are_those_of_the_checkpoints():
    meter = CostMeter(mean_secs_between_failures=3600)
    for _ in range(3):
        meter.observe(REPORT)
    inputs = meter.inputs()
    assert inputs.write_secs_per_row == pytest.approx(2e-6)
    assert inputs.interval_secs == pytest.approx(10)
    assert inputs.mean_secs_between_failures == 3600
    # Nothing was restored yet: reading is taken to be as fast as saving.
    assert inputs.read_secs_per_row == pytest.approx(0.5 / 1000)
    assert inputs.stale_skip == 0


def test_bases_are_measured_apart():
    meter = CostMeter()
    base = dataclasses.replace(
        REPORT, base=True, rows_hot=0, rows_cold=10_000, bytes=2_000_000, lost_secs=0.5
    )
    meter.observe(base)
    first = meter.inputs()
    assert first.write_secs_per_row == first.base_secs_per_row == pytest.approx(5e-5)
    meter.observe(REPORT)
    inputs = meter.inputs()
    assert inputs.write_secs_per_row == pytest.approx(2e-6)
    assert inputs.base_secs_per_row == pytest.approx(5e-5)
    # How fast storage is, both tell.
    assert inputs.read_secs_per_row == pytest.approx(200 * 1.0 / 2_200_000)


def test_without_a_base_it_costs_what_others_do():
    meter = CostMeter()
    meter.observe(REPORT)
    assert meter.inputs().base_secs_per_row is None


def test_restore_replaces_the_guess():
    meter = CostMeter()
    meter.observe(REPORT)
    meter.observe_restore(RestoreSample(bytes=1_000_000, seconds=0.1, stale_skip=0.4))
    inputs = meter.inputs()
    assert inputs.read_secs_per_row == pytest.approx(200 * 1e-7)
    assert inputs.stale_skip == 0.4


def test_restore_of_nothing_says_nothing():
    meter = CostMeter()
    meter.observe(REPORT)
    meter.observe_restore(RestoreSample(bytes=0, seconds=0.1, stale_skip=0.0))
    assert meter.inputs().read_secs_per_row == pytest.approx(0.5 / 1000)


def test_checkpoints_without_rows_say_nothing_but_time_passes():
    meter = CostMeter()
    meter.observe(dataclasses.replace(REPORT, rows_hot=0, rows_cold=0, bytes=0))
    assert meter.inputs() is None
    assert meter.mean_secs_between_failures == pytest.approx(DAY + 10)


def test_recent_checkpoints_count_more():
    meter = CostMeter()
    for lost_secs in [0.001] * 20 + [0.003] * 30:
        meter.observe(dataclasses.replace(REPORT, lost_secs=lost_secs))
    assert meter.inputs().write_secs_per_row == pytest.approx(3e-6, rel=0.06)


def test_writing_is_never_free():
    meter = CostMeter()
    meter.observe(dataclasses.replace(REPORT, lost_secs=0.0))
    assert meter.inputs().write_secs_per_row > 0


def test_failures_are_learnt_from_restarts():
    meter = CostMeter()
    meter.observe(dataclasses.replace(REPORT, interval_secs=DAY))
    assert meter.mean_secs_between_failures == pytest.approx(2 * DAY)
    for restarts in (1, 2, 3):
        restarted = CostMeter()
        restarted.load_state(json.loads(json.dumps(meter.state())))
        meter = restarted
        assert meter.mean_secs_between_failures == pytest.approx(2 * DAY / (restarts + 1))
    assert meter.inputs() is not None


def test_what_was_restored_last_survives_a_restart():
    meter, restarted = CostMeter(), CostMeter()
    meter.observe(REPORT)
    meter.observe_restore(RestoreSample(bytes=1000, seconds=1.0, stale_skip=0.25))
    restarted.load_state(meter.state())
    assert restarted.inputs().stale_skip == 0.25


def test_interval_is_youngs_when_only_stalls_cost():
    meter = CostMeter(mean_secs_between_failures=20_000)
    assert meter.interval_secs() is None
    meter.observe(dataclasses.replace(REPORT, stall_secs=0.01, lost_secs=0.01))
    assert meter.interval_secs() == pytest.approx((2 * 0.01 * 20_000) ** 0.5)


def test_rows_that_cost_make_the_interval_longer():
    meter = CostMeter(mean_secs_between_failures=20_000)
    meter.observe(dataclasses.replace(REPORT, stall_secs=0.01, lost_secs=0.5))
    secs = meter.interval_secs()
    assert secs > (2 * 0.01 * 20_000) ** 0.5
    # Where fixed cost and a quarter of the growing one equal the square of the interval over 2 M.
    growing = 0.49 * (secs / REPORT.interval_secs) ** 0.75
    assert 0.01 + growing / 4 == pytest.approx(secs**2 / 40_000)


@pytest.mark.parametrize(("between_failures", "expected"), [(0.1, 1.0), (1e12, 3600.0)])
def test_interval_stays_within_reason(between_failures, expected):
    meter = CostMeter(mean_secs_between_failures=between_failures)
    meter.observe(REPORT)
    assert meter.interval_secs() == expected


def test_state_of_another_version_is_taken_as_far_as_it_goes():
    meter = CostMeter()
    meter.observe(REPORT)
    state = meter.state()
    state["means"]["of_tomorrow"] = 1.0
    del state["means"]["stall_secs"]
    state["restore"] = {"bytes": 5}
    restarted = CostMeter()
    restarted.load_state(state)
    assert restarted.inputs().write_secs_per_row == meter.inputs().write_secs_per_row
    assert restarted.inputs().stale_skip == 0
    CostMeter().load_state({})
