# SPDX-License-Identifier: Apache-2.0
"""Strategies: which threshold they set and when they take a base, and what they remember."""

import dataclasses

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.policy import (
    STRATEGIES,
    Adaptive,
    CheckNRun,
    CutReport,
    Differential,
    Full,
    Incremental,
    StopAndCopy,
    bits_for_restores,
    make_policy,
)


def make(strategy, **changes):
    base_every = 3 if strategy == "incremental_n" else None
    arguments = {"hot_threshold": 0.5, "hysteresis": 0.1, "base_every": base_every, **changes}
    return make_policy(strategy, **arguments)


def bases(policy, checkpoints, updated=10, live=1000):
    """Which of the next checkpoints are bases, when each delta updates `updated` of `live` rows."""
    decided = []
    for _ in range(checkpoints):
        base = policy.decide().base
        rows = live if base else updated
        policy.observe(CutReport(base=base, rows_hot=0, rows_cold=rows, rows_live=live))
        decided.append(base)
    return decided


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_are_found_by_name(name):
    assert make(name).name == name


def test_policy_object_is_taken_as_it_is():
    policy = Incremental()
    assert make(policy) is policy


def test_unknown_name_is_refused():
    with pytest.raises(errors.InvalidOptionError, match="Received: 'x'. Expected: one of adaptive"):
        make("x")


def test_full_is_always_a_base():
    assert bases(make("full"), 4) == [True] * 4


def test_incremental_has_no_hot_rows_and_no_bases_of_its_own():
    policy = make("incremental")
    assert policy.decide().hot_threshold > 1
    assert bases(policy, 50) == [False] * 50


def test_differential_has_hot_rows_only():
    assert make("differential").decide().hot_threshold == 0


def test_incremental_n_has_no_hot_rows_and_takes_bases():
    policy = make("incremental_n")
    assert policy.decide().hot_threshold > 1
    assert bases(policy, 6) == [False, False, True] * 2


def test_incremental_n_without_n_is_refused():
    with pytest.raises(errors.InvalidOptionError, match="base_every. Received: None"):
        make("incremental_n", base_every=None)


def test_adaptive_splits_at_its_threshold():
    decision = make("adaptive", hot_threshold=0.3, hysteresis=0.2).decide()
    assert (decision.hot_threshold, decision.hysteresis) == (0.3, 0.2)


@pytest.mark.parametrize("policy", [Incremental(3), Differential(3), Adaptive(0.5, base_every=3)])
def test_base_every_counts_from_the_last_base(policy):
    policy.observe(CutReport(base=True, rows_hot=0, rows_cold=9, rows_live=9))
    assert bases(policy, 7) == [False, False, True, False, False, True, False]


@pytest.mark.parametrize("policy", [Incremental(3), Differential(3), Adaptive(0.5, base_every=3)])
def test_bases_that_had_to_be_taken_count(policy):
    policy.observe(CutReport(base=False, rows_hot=0, rows_cold=9, rows_live=9))
    policy.observe(CutReport(base=True, rows_hot=0, rows_cold=9, rows_live=9))
    assert bases(policy, 3) == [False, False, True]


def test_differential_takes_a_base_by_check_n_runs_rule():
    """Base as soon as 1 + S_1 + ... + S_i <= (i + 1) S_i, with sizes relative to a full one."""
    policy = Differential()
    sizes = [0.1, 0.2, 0.3, 0.42]  # 1 + 0.6 > 4 * 0.3, but 1 + 1.02 <= 5 * 0.42
    for i, size in enumerate(sizes):
        assert not policy.decide().base, f"after {i} differentials"
        policy.observe(CutReport(base=False, rows_hot=int(size * 100), rows_cold=0, rows_live=100))
    assert policy.decide().base
    policy.observe(CutReport(base=True, rows_hot=100, rows_cold=0, rows_live=100))
    assert not policy.decide().base


def test_differential_restored_at_a_base_takes_no_other_at_once():
    policy = Differential()
    for size in (10, 20, 30, 42):
        policy.observe(CutReport(base=False, rows_hot=size, rows_cold=0, rows_live=100))
    assert policy.decide().base
    restored = Differential()
    # As the manager does: the manifest of the base was written before the policy was told of it.
    restored.load_state({**policy.state(), "since_base": 0})
    assert not restored.decide().base


def test_differential_of_equal_small_differentials_rebases_late():
    # 1 + i s <= (i + 1) s only if s >= 1: a base never pays while differentials stay small.
    assert bases(Differential(), 20, updated=10) == [False] * 20


def test_check_n_run_stops_and_copies():
    decision = make("check_n_run").decide()
    assert decision.stop_and_copy
    assert decision.hot_threshold == 0
    assert (decision.encoding, decision.slot_encoding) == ("raw", "raw")


def test_check_n_run_takes_bases_when_they_pay():
    sizes = [10, 20, 30, 42]
    policies = CheckNRun(4), Differential()
    for policy in policies:
        for size in sizes:
            policy.observe(CutReport(base=False, rows_hot=size, rows_cold=0, rows_live=100))
    assert [policy.decide().base for policy in policies] == [True, True]


def test_stop_and_copy_changes_nothing_else():
    wrapped, plain = StopAndCopy(Incremental(3)), Incremental(3)
    assert wrapped.name == "incremental"
    assert dataclasses.replace(wrapped.decide(), stop_and_copy=False) == plain.decide()
    assert bases(wrapped, 7) == bases(plain, 7)
    assert wrapped.state() == plain.state()
    other = StopAndCopy(Incremental(3))
    other.load_state(wrapped.state())
    assert other.state() == wrapped.state()


def test_stop_and_copy_has_the_methods_that_the_policy_has():
    assert StopAndCopy(Adaptive()).interval_secs() is None
    assert not hasattr(StopAndCopy(Incremental()), "interval_secs")
    assert not hasattr(StopAndCopy(Incremental()), "observe_restore")


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_check_n_run_quantises_parameters_and_on_demand_slots(bits):
    decision = CheckNRun(bits).decide()
    assert (decision.encoding, decision.slot_encoding) == (f"int{bits}", "raw")
    decision = CheckNRun(bits, quantize_slots=True).decide()
    assert (decision.encoding, decision.slot_encoding) == (f"int{bits}", f"int{bits}")


@pytest.mark.parametrize("bits", [0, 1, 5, 16, "4"])
def test_other_numbers_of_bits_are_refused(bits):
    with pytest.raises(errors.InvalidOptionError, match=f"bits. Received: {bits!r}. Expected: 2"):
        CheckNRun(bits)


@pytest.mark.parametrize(
    ("restores", "bits"),
    [(0, 2), (1, 2), (1.5, 3), (3, 3), (4, 4), (20, 4), (21, 8), (1e9, 8)],
)
def test_more_restores_need_more_bits(restores, bits):
    assert bits_for_restores(restores) == bits


@pytest.mark.parametrize("restores", [-1, float("nan")])
def test_restores_that_cannot_be_are_refused(restores):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value for expected_restores"):
        bits_for_restores(restores)


@pytest.mark.parametrize("name", STRATEGIES)
def test_state_survives_a_restart(name):
    one, other = make(name, base_every=5), make(name, base_every=5)
    for base, rows in ((True, 100), (False, 20), (False, 30)):
        one.observe(CutReport(base=base, rows_hot=rows, rows_cold=0, rows_live=100))
    other.load_state(one.state())
    expected = one.state()
    if "meter" in expected:
        expected["meter"]["restarts"] += 1
    assert other.state() == expected
    assert bases(other, 10) == bases(one, 10)


def test_state_of_another_strategy_is_taken_as_far_as_it_goes():
    full, incremental = Full(), Incremental(base_every=2)
    full.observe(CutReport(base=True, rows_hot=0, rows_cold=1, rows_live=1))
    incremental.load_state(full.state())
    assert bases(incremental, 2) == [False, True]
    Differential().load_state(incremental.state())
    Adaptive(0.5).load_state({})


def test_period_solved_by_an_earlier_run_does_not_bind_a_given_threshold():
    solved, given = Adaptive(), Adaptive(0.5)
    state = solved.state()
    state["solution"] = {
        **{"hot_threshold": 0.3, "base_period": 2, "rho": 1.0, "cost_secs": 1.0},
        **{"incremental_secs": 1.0, "differential_secs": 1.0, "reason": "A test."},
    }
    solved.load_state(state)
    given.load_state(state)
    assert bases(solved, 4) == [False, True, False, True]
    assert bases(given, 4) == [False] * 4
