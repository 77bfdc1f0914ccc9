# SPDX-License-Identifier: Apache-2.0
"""Each strategy, checkpoint after checkpoint, against plain dicts: every step restores exactly."""

import os

import numpy as np
import pytest
import tensorflow as tf

import adaptcp_tf as acp
from tests.support import tables

STEPS = 12
SEEDS = range(40 if os.environ.get("ADAPTCP_TEST_LENGTH") == "long" else 2)
STRATEGIES = {
    "full": {},
    "incremental": {},
    "incremental_n": {"base_every": 4},
    "differential": {},
    "differential_n": {"strategy": "differential", "base_every": 5},
    "adaptive": {"hot_threshold": 0.5},
    "adaptive_n": {"strategy": "adaptive", "hot_threshold": 0.3, "base_every": 6},
    "adaptive_solved": {"strategy": "adaptive", "mean_secs_between_failures": 1.0},
    "adaptive_steady": {"strategy": "adaptive", "hot_threshold": 0.5, "hysteresis": 0.0},
}


def train(variable, rng, step):
    """Updates hot rows nearly always, others now and then; removes some; goes on with new ones."""
    hot = np.flatnonzero(rng.random(20) < 0.9)
    cold = rng.integers(20, 100 + 20 * step, 15)
    # Duplicates inside one insert, as a batch without unique ids has.
    numbers = np.concatenate([hot, cold, cold[:5]])
    keys = tables.make_keys(variable.key_dtype, numbers)
    variable.upsert(keys, tables.make_rows(tf.float32, variable.dim, numbers, seed=step))
    if step % 3 == 0:
        tables.remove(variable, rng.integers(0, 100, 10))
    if step % 5 == 0:
        tables.fill(variable, rng.integers(0, 100, 4), seed=100 + step)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("keys", [tf.int64, tf.string], ids=lambda keys: keys.name)
def test_every_step_of_a_run_restores_exactly(tmp_path, name, seed, keys):
    options = {"strategy": name, **STRATEGIES[name]}
    rng = np.random.default_rng(seed)
    variable = tables.make_variable(shards=1 + seed % 2, keys=keys)
    manager = tables.manage(tmp_path, variable, **options)
    expected = {}
    for step in range(1, STEPS + 1):
        train(variable, rng, step)
        expected[step] = tables.rows_of(variable)
        manager.save(step)
        if step in (4, 8):  # a restart goes on with the same chain
            manager.close()
            variable = tables.make_variable(shards=1 + seed % 2, keys=keys)
            manager = tables.manage(tmp_path, variable, **options)
            assert manager.restore().step == step
    manager.wait()
    for step in rng.permutation(STEPS) + 1:
        manager.restore(int(step))
        assert tables.rows_of(variable) == expected[step], f"step {step}"
    manager.close()


class Restless(acp.policies.Incremental):
    """Moves every row from one class to the other and back, checkpoint by checkpoint."""

    def __init__(self, seed):
        super().__init__()
        self._rng = np.random.default_rng(seed)

    def decide(self):
        threshold = self._rng.choice([0.0, 2.0, 0.2, 0.5])
        return acp.policies.Decision(
            base=bool(self._rng.random() < 0.1), hot_threshold=float(threshold), hysteresis=0.0
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_switch_class_all_the_time_lose_nothing(tmp_path, seed):
    """Each checkpoint is restored at once, by a new trainer that goes on from there."""
    rng = np.random.default_rng(seed)
    expected, switches = {}, 0
    hot_before = None
    for step in range(1, 3 * STEPS + 1):
        variable = tables.make_variable()
        manager = tables.manage(tmp_path, variable, strategy=Restless((seed, step)))
        if step > 1:
            manager.restore()
            assert tables.rows_of(variable) == expected, f"step {step - 1}"
        train(variable, rng, step)
        expected = tables.rows_of(variable)
        manager.save(step)
        manager.wait()
        hot = manager.reports[-1].rows_hot > manager.reports[-1].rows_cold
        switches += hot_before is not None and hot != hot_before
        hot_before = hot
        manager.close()
    assert switches > STEPS / 2


def kinds(directory):
    """The kinds of segments of each checkpoint, read from the names of its files."""
    return [
        sorted(path.stem.split("-")[-1] for path in attempt.glob("*.acp"))
        for attempt in sorted((directory / "segments").iterdir())
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"strategy": "full"}, [["base"]] * 3),
        ({"strategy": "incremental"}, [["base"], ["increment"], ["increment"]]),
        ({"strategy": "differential"}, [["base"], ["differential"], ["differential"]]),
        (
            {"strategy": "adaptive", "hot_threshold": 0.3, "hysteresis": 0.0},
            [["base"], ["differential", "increment"], ["differential", "increment"]],
        ),
    ],
    ids=lambda value: value["strategy"] if isinstance(value, dict) else "",
)
def test_strategies_write_their_kinds_of_segments(tmp_path, options, expected):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, **options)
    for step in range(1, 4):
        tables.fill(variable, range(10), seed=step)  # in every interval: hot
        tables.fill(variable, range(100 * step, 100 * step + 10))  # once: cold
        manager.save(step)
    manager.close()
    assert kinds(tmp_path) == expected


def test_adaptive_tells_hot_rows_from_cold_ones(tmp_path):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy="adaptive", hot_threshold=0.5)
    tables.fill(variable, range(1000))
    for step in range(1, 30):
        tables.fill(variable, range(10), seed=step)
        tables.fill(variable, range(10 + step * 30, 40 + step * 30), seed=step)
        manager.save(step)
    manager.wait()
    last = manager.reports[-1]
    assert (last.rows_hot, last.rows_cold) == (10, 30)
    manager.close()


def test_rates_survive_a_restart(tmp_path):
    """A row known to be hot stays hot; without its history it would start as a new one."""
    reports = {}
    for restart in (False, True):
        variable = tables.make_variable()
        directory = tmp_path / str(restart)
        manager = tables.manage(directory, variable, hot_threshold=0.7)
        for step in range(1, 40):
            numbers = [n for n in range(20) if n < 10 or step % 3 == 0]
            tables.fill(variable, numbers, seed=step)
            manager.save(step)
            if restart and step == 30:
                manager.close()
                variable = tables.make_variable()
                manager = tables.manage(directory, variable, hot_threshold=0.7)
                manager.restore()
        manager.wait()
        reports[restart] = [(r.rows_hot, r.rows_cold, r.kind) for r in manager.reports[-9:]]
        manager.close()
    assert reports[True] == reports[False]
    assert reports[True][-1][0] > 0
