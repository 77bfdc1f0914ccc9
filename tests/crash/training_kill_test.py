# SPDX-License-Identifier: Apache-2.0
"""A training killed with SIGKILL at random instants and resumed ends like one that never was.

By `model.fit`, by an Estimator and in a TF1 session; on MovieLens-100k and on the Criteo sample
(ADAPTCP_DATA, default ../shared/data; where that is absent the example says so and uses a generated
file of the same format). ADAPTCP_TEST_LENGTH=long kills more than fifty times.
"""

import concurrent.futures
import json
import math
import os

import pytest
import tensorflow as tf

from adaptcp_tf._src.manifest import Tiers
from tests.support import estimators, kills, processes

LONG = os.environ.get("ADAPTCP_TEST_LENGTH") == "long"
KILLS = 14 if LONG else 6
# script -> samples, batch size, epochs
SIZES = estimators.runnable(
    {
        "keras_movielens.py": (100_000, 256, 3),
        "keras_criteo.py": (8_000, 128, 15),
        "estimator_criteo.py": (8_000, 128, 15),
        "session_criteo.py": (8_000, 128, 15),
    }
)
CHAINS = [
    ("keras_movielens.py", "adaptive"),
    ("keras_criteo.py", "differential"),
    ("estimator_criteo.py", "adaptive"),
    ("session_criteo.py", "incremental"),
]
TF1 = ("estimator_criteo.py", "session_criteo.py")
CHAINS = [chain for chain in CHAINS if chain[0] in SIZES]
if LONG:
    CHAINS += [("keras_movielens.py", "incremental"), ("keras_criteo.py", "adaptive")]


def command(script, strategy, directory, digest):
    samples, batch, epochs = SIZES[script]
    return [
        *(processes.ROOT / "examples" / script, "--directory", directory),
        *("--samples", samples, "--batch", batch, "--epochs", epochs),
        *("--save_freq", 5, "--strategy", strategy, "--digest_out", digest),
    ]


def last_step(script):
    samples, batch, epochs = SIZES[script]
    return epochs * math.ceil(samples / batch)


def uninterrupted(script, folder):
    """The digest of a training without checkpoints and without kills."""
    digest = folder / f"{script}.json"
    arguments = command(script, "none", folder / "unused", digest)
    with kills.Trainer(arguments, folder / "unused", folder / f"{script}.log") as trainer:
        trainer.finish()
    return json.loads(digest.read_text())


def killed(script, strategy, folder):
    """The Chain and the digest of a training that was killed many times."""
    name = f"{script}-{strategy}"
    directory, digest = folder / name, folder / f"{name}.json"
    chain = kills.kill_again_and_again(
        command(script, strategy, directory, digest),
        directory,
        folder / f"{name}.log",
        kills=KILLS,
        last_step=last_step(script),
        seed=name,
    )
    return chain, json.loads(digest.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kills")


@pytest.fixture(scope="module")
def outcomes(folder):
    """(script, strategy) -> chain, digest, digest without kills; two trainings at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        whole = {script: executor.submit(uninterrupted, script, folder) for script in SIZES}
        chains = {chain: executor.submit(killed, *chain, folder) for chain in CHAINS}
        return {
            chain: (*future.result(), whole[chain[0]].result()) for chain, future in chains.items()
        }


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
def test_killed_training_ends_with_the_same_bits(outcomes, chain):
    """Rows, slots, dense variables, counters and metrics."""
    _, resumed, whole = outcomes[chain]
    assert resumed["iterations"] == whole["iterations"] == last_step(chain[0])
    different = [
        part for part in whole["parts"] if resumed["parts"].get(part) != whole["parts"][part]
    ]
    assert different == []
    assert resumed == whole


def test_both_kinds_of_checkpoints_of_a_graph_are_of_the_same_steps(outcomes, folder):
    for script, strategy in outcomes:
        if script in TF1:
            directory = folder / f"{script}-{strategy}"
            tensorflows = directory / script.split("_")[0]
            state = tf.train.get_checkpoint_state(str(tensorflows))
            listed = [int(p.rsplit("-", 1)[1]) for p in state.all_model_checkpoint_paths]
            assert listed == Tiers(str(directory)).all_steps()
            # A kill between the new list and the removal of old files leaves those, unlisted.
            there = tensorflows.glob("model.ckpt-*.index")
            assert {int(p.stem.rsplit("-", 1)[1]) for p in there} >= set(listed)


def test_kills_hit_every_phase(outcomes, capsys):
    """Of the many kills some hit a save and some a start, or the proof would prove little."""
    chains = [chain for chain, _, _ in outcomes.values()]
    total = sum(chain.kills for chain in chains)
    in_a_save = sum(chain.in_a_save for chain in chains)
    with capsys.disabled():
        print(f"\n{total} kills, {in_a_save} of them in a save", end=" ")
    assert total == KILLS * len(CHAINS)
    assert in_a_save > 0
