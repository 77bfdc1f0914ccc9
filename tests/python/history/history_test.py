# SPDX-License-Identifier: Apache-2.0
"""The history beside the checkpoints: complete, of one past, and nobody's business but its own."""

import doctest
import json

import pytest

from adaptcp_tf._src.history import files_of_reports, log, read_history
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import checkpoints, tables, two_tiers

ROWS = 30


def steps(directory):
    return [report["step"] for report in read_history(directory)]


def test_each_checkpoint_has_its_report_though_it_is_deleted(tmp_path):
    with checkpoints.training(tmp_path, max_to_keep=1) as (manager, users, _):
        for step in range(1, 6):
            tables.fill(users, range(step), seed=step)
            checkpoints.save(manager, step)
        reports = manager.reports
    history = read_history(tmp_path)
    assert CheckpointStore(tmp_path).all_steps() == [5]
    assert [report["step"] for report in history] == [1, 2, 3, 4, 5]
    for line, report in zip(history, reports):
        assert line == json.loads(json.dumps(vars(report)))
    last = history[-1]
    manifest = CheckpointStore(tmp_path).read(5)
    assert last["restore_bytes"] == manifest.totals["bytes"]
    assert last["chain_length"] == 4
    assert last["bytes_increment"] == sum(s.bytes for s in manifest.segments if s.interval == 5)
    assert last["bytes"] == sum(manifest.new_files().values())
    assert history[0]["bytes_base"] > 0 == last["bytes_base"]


def test_a_later_process_adds_its_own(tmp_path):
    for first in (1, 3):
        with checkpoints.training(tmp_path) as (manager, _, _):
            if first > 1:
                manager.restore()
            checkpoints.save(manager, first)
            checkpoints.save(manager, first + 1)
    assert steps(tmp_path) == [1, 2, 3, 4]
    assert len(list(tmp_path.glob("adaptcp-history-*.jsonl"))) == 2


def test_what_training_went_back_behind_is_left_out(tmp_path):
    with checkpoints.training(tmp_path) as (manager, _, _):
        for step in (1, 2, 3, 4):
            checkpoints.save(manager, step)
        manager.restore(2)
        manager.delete_newer(2)
        checkpoints.save(manager, 3)
        manager.close()
    assert steps(tmp_path) == [1, 2, 3]


def test_files_are_cut_into_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_REPORTS_PER_FILE", 2)
    with checkpoints.training(tmp_path) as (manager, _, _):
        for step in range(1, 6):
            checkpoints.save(manager, step)
    names = sorted(path.name for path in tmp_path.glob("adaptcp-history-*.jsonl"))
    assert [int(name[16:32]) for name in names] == [1, 3, 5]
    assert steps(tmp_path) == [1, 2, 3, 4, 5]


def test_directory_behind_a_buffer_has_it_with_upload_times(tmp_path):
    with two_tiers.running(tmp_path) as run:
        manager = run.manage()
        for step in (1, 2):
            run.save(manager, step)
            manager.wait()
        manager.close()
        for directory in (run.local, run.remote):
            reports = read_history(directory)
            assert [report["step"] for report in reports] == [1, 2]
            for report in reports:
                assert report["seconds_to_uploaded"] >= report["seconds_to_durable"]


def test_unwritable_history_harms_no_checkpoint(tmp_path, caplog):
    with checkpoints.training(tmp_path) as (manager, _, _):
        # Where the file should be is a directory.
        (tmp_path / "adaptcp-history-0000000000000001.jsonl" / "x").mkdir(parents=True)
        checkpoints.save(manager, 1)
        checkpoints.save(manager, 2)
        assert manager.all_steps() == [1, 2]
    complaints = [r for r in caplog.records if "history" in r.getMessage()]
    assert len(complaints) == 1


def test_damaged_lines_are_left_out(tmp_path):
    checkpoints.chain(tmp_path)
    (path,) = tmp_path.glob("adaptcp-history-*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\xff{]\n[1]\n{}\n" + lines[1] + lines[2][:-20])
    assert steps(tmp_path) == [10, 20]


@pytest.mark.parametrize("module", [files_of_reports])
def test_examples_run(module):
    assert doctest.testmod(module).failed == 0
