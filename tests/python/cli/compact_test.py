# SPDX-License-Identifier: Apache-2.0
"""`adaptcp compact`: the same checkpoint from fewer files, whenever it is killed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.maintenance import compact
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf.cli import main
from tests.support import checkpoints, faults, models, processes, tables, two_tiers


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A directory of an adaptive run, and the rows of its newest step."""
    directory = tmp_path_factory.mktemp("sound")
    return directory, build(directory)


def build(directory, rows=400):
    with checkpoints.training(directory, strategy="adaptive", hot_threshold=0.6) as run:
        manager, users, items = run
        for step in range(10, 70, 10):
            for variable in (users, items):
                tables.fill(variable, range(0, rows, 3), seed=step)
                tables.fill(variable, range(step, step + 30), seed=step)
                tables.remove(variable, range(step, rows, 41))
            checkpoints.save(manager, step)
        return tables.rows_of(users), tables.rows_of(items)


@pytest.fixture
def run(sound, tmp_path):
    shutil.copytree(sound[0], tmp_path / "run")
    return tmp_path / "run", sound[1]


def restored(directory, step=None):
    with checkpoints.training(directory) as (manager, users, items):
        manager.restore(step)
        return tables.rows_of(users), tables.rows_of(items)


def test_restores_the_same_from_less(run, capsys):
    directory, expected = run
    before = CheckpointStore(directory).read(60)
    assert main(["compact", str(directory), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    after = CheckpointStore(directory).read(60)
    assert {s.kind for s in after.segments} == {after.kind} == {"base"}
    assert (report["step"], report["rows"]) == (60, sum(map(len, expected)))
    assert report["bytes_after"] == after.totals["bytes"] < before.totals["bytes"]
    assert report["stale_rows"] == before.totals["rows"] - after.totals["rows"] > 0
    for name in ("position", "counters", "policy", "dense", "groups", "interval", "wall_time"):
        assert getattr(after, name) == getattr(before, name)
    assert main(["verify", str(directory)]) == 0
    assert restored(directory) == expected


def test_older_checkpoints_stay_and_gc_frees_the_chain(run, capsys):
    directory, expected = run
    older = restored(directory, 50)
    assert main(["compact", str(directory)]) == 0
    assert restored(directory, 50) == older
    assert main(["gc", str(directory), "--keep", "1"]) == 0
    assert main(["verify", str(directory)]) == 0
    kept = {str(path.relative_to(directory)) for path in directory.glob("segments/*/*")}
    assert kept == set(CheckpointStore(directory).read(60).files())
    assert restored(directory) == expected


def test_training_goes_on_from_the_base(run, capsys):
    directory, _ = run
    assert main(["compact", str(directory)]) == 0
    options = {"strategy": "adaptive", "hot_threshold": 0.6}
    with checkpoints.training(directory, **options) as (manager, users, items):
        manager.restore()
        tables.fill(users, range(7), seed=9)
        tables.remove(items, range(12, 15))
        checkpoints.save(manager, 70)
        expected = tables.rows_of(users), tables.rows_of(items)
    manifest = CheckpointStore(directory).read(70)
    assert (manifest.kind, manifest.base_interval) == ("delta", 6)
    assert restored(directory) == expected


def trained(model):
    """Tables, dense variables and counters; metrics come with the first step."""
    return {k: v for k, v in models.parts(model).items() if not k.startswith("metric")}


def test_trained_slots_are_kept(tmp_path, capsys):
    acp = checkpoints.acp
    options = acp.CheckpointOptions(strategy="incremental", when_busy="wait")
    model = models.build("functional")
    manager = acp.CheckpointManager(str(tmp_path), model=model, options=options)
    for step in (1, 2, 3):
        models.train(model, models.dataset(2))
        checkpoints.save(manager, step)
    expected = trained(model)
    manager.close()
    assert main(["compact", str(tmp_path)]) == 0
    fresh = models.build("functional")
    manager = acp.CheckpointManager(str(tmp_path), model=fresh, options=options)
    manager.restore()
    assert trained(fresh) == expected
    manager.close()


def test_base_needs_nothing(run, capsys):
    directory, _ = run
    assert main(["compact", str(directory)]) == 0
    before = sorted(directory.rglob("*"))
    assert main(["compact", str(directory)]) == 0
    assert "a base already" in capsys.readouterr().out
    assert sorted(directory.rglob("*")) == before


def test_quantised_checkpoint_is_refused(tmp_path, capsys):
    checkpoints.chain(tmp_path, slot_encoding="int8", encoding="bfloat16")
    assert main(["compact", str(tmp_path)]) == 1
    assert "rows stored as bfloat16" in capsys.readouterr().err
    assert CheckpointStore(tmp_path).read(30).kind == "delta"


def test_damage_leaves_all_as_it_was(run, capsys):
    directory, _ = run
    path = max(directory.glob("segments/*10-*/g*-base.acp"), key=lambda p: p.stat().st_size)
    faults.flip(path, path.stat().st_size // 2, num_bytes=32)
    before = sorted(directory.rglob("*"))
    assert main(["compact", str(directory)]) == 1
    assert path.name in capsys.readouterr().err
    assert sorted(directory.rglob("*")) == before


def test_files_stay_when_nobody_knows_whether_the_manifest_arrives(run):
    directory, expected = run
    before = set(directory.glob("segments/*/*"))
    with contextlib.ExitStack() as full:

        def fill(done, total):
            if done == total:  # all is written but the manifest
                full.enter_context(faults.file_size_limit(100))

        with pytest.raises(errors.StorageError):
            compact(directory, watch=fill)
    assert set(directory.glob("segments/*/*")) > before
    assert restored(directory) == expected
    assert main(["gc", str(directory), "--keep", "9"]) == 0
    assert set(directory.glob("segments/*/*")) == before


def test_no_checkpoint_is_wrong_use(tmp_path):
    assert main(["compact", str(tmp_path)]) == 2


def test_checkpoint_that_still_waits_in_a_buffer_is_uploaded_after_it(tmp_path):
    """It builds on the chain that was compacted, whose files stay."""
    with two_tiers.running(tmp_path) as run:
        manager = run.manage(base_every=None, strategy="incremental")
        for step in (1, 2):
            run.save(manager, step)
            manager.wait()
        two_tiers.stop_answering()
        run.save(manager, 3)
        run.close_while_away(manager)
        # The lock that could not be given back is this process's own.
        (run.remote / "adaptcp.lock").unlink()
        assert main(["compact", run.directory]) == 0
        assert CheckpointStore(run.remote).read(2).kind == "base"
        manager = run.manage()
        manager.wait()
        manager.close()
        assert two_tiers.steps_in(run.remote) == [1, 2, 3]
        assert run.restored(2) == run.expected[2]
        assert run.restored(3) == run.expected[3]
        assert main(["verify", run.directory]) == 0


COMPACT = """
import sys
from adaptcp_tf.cli import main
print("ready", flush=True)
sys.stdin.readline()
main(["compact", sys.argv[1]])
"""


def test_killed_at_any_instant_it_leaves_a_checkpoint_that_restores(run):
    """Killed later and later, until one is through; each finds what the one before has left."""
    directory, expected = run
    delay_secs, killed = 0.0, 0
    while CheckpointStore(directory).read(60).kind == "delta":
        process = subprocess.Popen(
            [sys.executable, "-c", COMPACT, str(directory)],
            env=processes.ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"\n")
        process.stdin.flush()
        time.sleep(delay_secs)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        delay_secs = max(0.005, 3 * delay_secs)
        assert main(["verify", str(directory)]) == 0
    assert killed >= 2
    assert restored(directory) == expected
    assert main(["gc", str(directory), "--keep", "1"]) == 0
    kept = {str(path.relative_to(directory)) for path in directory.glob("segments/*/*")}
    assert kept == set(CheckpointStore(directory).read(60).files())
    assert os.path.exists(directory / "manifest-0000000000000060.json")
