# SPDX-License-Identifier: Apache-2.0
"""By how much steps are longer while a checkpoint is saved."""

import pytest

from adaptcp_tf._src.checkpoint.slowdown import SlowdownMeter


class Steps:
    """Lets steps end, on a clock of its own."""

    def __init__(self):
        self.meter = SlowdownMeter()
        self.now = 0.0
        self.meter.step_ended(saving=False, now=self.now)

    def run(self, *seconds, saving=False):
        for one in seconds:
            self.now += one
            self.meter.step_ended(saving=saving, now=self.now)


@pytest.fixture
def steps():
    return Steps()


def test_longer_steps_while_saving_are_a_loss(steps):
    steps.run(*[0.1] * 10)
    steps.run(0.15, 0.12, saving=True)
    assert steps.meter.take_lost_secs() == pytest.approx(0.07)


def test_loss_is_told_once(steps):
    steps.run(0.1)
    steps.run(0.2, saving=True)
    steps.meter.take_lost_secs()
    assert steps.meter.take_lost_secs() == 0


def test_noise_is_no_gain(steps):
    steps.run(0.1)
    steps.run(0.08, saving=True)
    assert steps.meter.take_lost_secs() == 0


def test_pauses_are_not_steps(steps):
    steps.run(0.1)
    steps.run(60.0)
    steps.run(60.0, 0.11, saving=True)
    assert steps.meter.take_lost_secs() == pytest.approx(0.01)


def test_first_step_that_builds_the_graph_is_forgotten(steps):
    steps.run(7.0, 0.1)
    steps.run(0.15, saving=True)
    assert steps.meter.take_lost_secs() == pytest.approx(0.05)


def test_nothing_is_known_while_every_step_is_saved(steps):
    steps.run(0.1, 0.5, saving=True)
    assert steps.meter.take_lost_secs() == 0
