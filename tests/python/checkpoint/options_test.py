# SPDX-License-Identifier: Apache-2.0
"""Options that cannot work are refused at once, by name, with what was received and expected."""

import pytest

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.policy import Incremental


def test_defaults_are_valid():
    options = acp.CheckpointOptions()
    assert (options.strategy, options.max_to_keep, options.when_busy) == ("adaptive", 3, "skip")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            "strategy",
            "sometimes",
            "one of adaptive, full, incremental, incremental_n, differential, check_n_run, or a",
        ),
        ("hot_threshold", -0.1, "a rate from 0 to 1"),
        ("hot_threshold", 1.1, "a rate from 0 to 1"),
        ("hot_threshold", float("nan"), "a rate from 0 to 1"),
        ("hysteresis", 1, "a fraction from 0 to below 1"),
        ("hysteresis", -0.5, "a fraction from 0 to below 1"),
        ("base_every", 0, "a positive integer or None"),
        ("base_every", 2.0, "a positive integer or None"),
        ("max_to_keep", 0, "a positive integer or None"),
        ("max_to_keep", True, "a positive integer or None"),
        ("keep_period", -3, "a positive integer or None"),
        ("restore_threads", 0, "a positive integer"),
        ("read_threads", 0, "a positive integer"),
        ("restore_threads", None, "a positive integer"),
        ("when_busy", "hope", "'skip' or 'wait'"),
        ("mean_secs_between_failures", 0, "a positive number of seconds, or None"),
        ("mean_secs_between_failures", float("nan"), "a positive number of seconds, or None"),
        ("rate_half_life_intervals", 0, "a positive number of intervals"),
        ("rate_half_life_intervals", float("inf"), "a positive number of intervals"),
    ],
)
def test_invalid_value_is_refused_by_name(name, value, expected):
    with pytest.raises(errors.InvalidOptionError) as caught:
        acp.CheckpointOptions(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"Invalid value for {name}. Received: {value!r}. Expected: ")
    assert expected in message
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("strategy", Incremental()),
        ("hot_threshold", 0),
        ("hot_threshold", 1),
        ("hot_threshold", None),
        ("mean_secs_between_failures", 3600),
        ("rate_half_life_intervals", 0.5),
        ("hysteresis", 0),
        ("base_every", 1),
        ("max_to_keep", None),
        ("when_busy", "wait"),
    ],
)
def test_limits_are_accepted(name, value):
    assert getattr(acp.CheckpointOptions(**{name: value}), name) == value


def test_options_cannot_change():
    with pytest.raises(AttributeError):
        acp.CheckpointOptions().max_to_keep = 5
