# SPDX-License-Identifier: Apache-2.0
"""The adaptive strategy in a real run: what it measures, decides, writes down and remembers."""

import json

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.policy import Decision
from tests.support import tables


def train(variable, rng, step):
    """Updates 50 hot rows, and 50 of 2,000 others."""
    numbers = np.concatenate([np.arange(50), 50 + rng.choice(2000, 50, replace=False)])
    keys = tables.make_keys(variable.key_dtype, numbers)
    variable.upsert(keys, tables.make_rows(tf.float32, variable.dim, numbers, seed=step))


def run(directory, variable, steps, **options):
    manager = tables.manage(directory, variable, **options)
    if manager.latest_step() is not None:
        manager.restore()
    rng = np.random.default_rng(len(steps))
    for step in steps:
        train(variable, rng, step)
        manager.save(step)
        manager.wait()
    return manager


def policy_of(directory, step):
    return CheckpointStore(str(directory)).read(step).policy


def test_decisions_and_inputs_are_in_the_manifest(tmp_path):
    manager = run(tmp_path, tables.make_variable(), range(1, 21), mean_secs_between_failures=600.0)
    policy = policy_of(tmp_path, 20)
    solution, inputs = policy["solution"], policy["inputs"]
    assert solution["reason"]
    assert 2 <= solution["base_period"] <= 2000
    assert inputs["mean_secs_between_failures"] == 600
    for name in ("write_secs_per_row", "read_secs_per_row", "interval_secs"):
        assert inputs[name] > 0, name
    assert policy["hot_threshold"] == solution["hot_threshold"]
    assert manager.reports[-1].hot_threshold == pytest.approx(solution["hot_threshold"])
    json.dumps(policy, allow_nan=False)


def test_hot_and_cold_rows_are_told_apart_by_the_solved_threshold(tmp_path):
    """Costs that make both classes pay; after many intervals the hot rows are the 50."""
    manager = run(
        tmp_path,
        tables.make_variable(),
        range(1, 61),
        # So rare that a base is not worth its writing before the end.
        mean_secs_between_failures=1e9,
        hot_threshold=0.5,
    )
    last = manager.reports[-1]
    assert last.kind == "delta"
    assert 40 <= last.rows_hot <= 60
    assert 40 <= last.rows_cold <= 60


def test_restart_is_counted_and_solution_kept(tmp_path):
    run(tmp_path, tables.make_variable(), range(1, 11)).close()
    before = policy_of(tmp_path, 10)
    manager = run(tmp_path, tables.make_variable(), range(11, 13))
    after = policy_of(tmp_path, 11)
    assert before["meter"]["restarts"] == 0
    assert after["meter"]["restarts"] == 1
    assert after["meter"]["restore"]["bytes"] > 0
    assert after["solution"] == before["solution"]
    assert manager.restore(11).rows > 0


def test_bases_are_taken_after_the_solved_period(tmp_path):
    """Failures so frequent that every chain is kept short."""
    manager = run(tmp_path, tables.make_variable(), range(1, 31), mean_secs_between_failures=1e-3)
    kinds = [report.kind for report in manager.reports]
    assert kinds.count("base") > 5


def test_half_life_of_the_options_is_used(tmp_path):
    rates = {}
    for half_life in (1.0, 50.0):
        variable = tables.make_variable()
        directory = tmp_path / str(half_life)
        manager = run(directory, variable, [1], rate_half_life_intervals=half_life)
        for step in range(2, 10):
            manager.save(step)
            manager.wait()
        (shard,) = manager._groups[0].shards
        rates[half_life] = shard.rates()[1].sum()
    assert rates[1.0] < rates[50.0] / 2


class EveryThirdIsABase:
    """A policy that a user wrote."""

    name = "every_third"

    def __init__(self):
        self.reports = []

    def decide(self):
        return Decision(base=len(self.reports) % 3 == 0, hot_threshold=2.0)

    def observe(self, report):
        self.reports.append(report)
        self.rates = report.rates()

    def state(self):
        return {"saved": len(self.reports)}

    def load_state(self, state):
        self.loaded = state["saved"]


def test_policy_of_the_user_decides(tmp_path):
    policy = EveryThirdIsABase()
    manager = run(tmp_path, tables.make_variable(), range(1, 8), strategy=policy)
    assert [r.kind for r in manager.reports] == ["base", "delta", "delta"] * 2 + ["base"]
    assert policy.rates.rows.sum() == policy.reports[-1].rows_live
    assert policy.reports[-1].bytes > 0
    assert policy.reports[-1].interval_secs > 0
    manager.restore()
    assert policy.loaded == 6


def test_policy_that_fails_to_observe_is_told_of_and_keeps_nothing_from_its_end(tmp_path):
    class Forgetful(EveryThirdIsABase):
        def observe(self, report):
            raise KeyError("rates")

    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy=Forgetful(), max_to_keep=1)
    for step in (1, 2):
        tables.fill(variable, range(10), seed=step)
        manager.save(step)
        with pytest.raises(
            acp.errors.CheckpointFailedError,
            match=rf"Step {step} is saved, but .*'every_third'.*KeyError\('rates'\)",
        ):
            manager.wait()
    assert manager.all_steps() == [2]
    manager.close()


def test_incremental_n_needs_its_n():
    with pytest.raises(acp.errors.InvalidOptionError, match="'incremental_n' needs"):
        acp.CheckpointOptions(strategy="incremental_n")


def test_incremental_n_takes_a_base_every_n_also_after_a_restart(tmp_path):
    options = {"strategy": "incremental_n", "base_every": 4}
    first = run(tmp_path, tables.make_variable(), range(1, 7), **options)
    kinds = [report.kind for report in first.reports]
    first.close()
    second = run(tmp_path, tables.make_variable(), range(7, 12), **options)
    kinds += [report.kind for report in second.reports]
    assert kinds == ["base", "delta", "delta", "delta"] * 2 + ["base", "delta", "delta"]
