# SPDX-License-Identifier: Apache-2.0
"""The history beside the checkpoints: complete, of one past, and nobody's business but its own."""

import dataclasses
import doctest
import json
import math
import threading

import pytest

from adaptcp_tf._src.history import HistoryLog, files_of_reports, log, read_history
from adaptcp_tf._src.manifest import CheckpointStore, Tiers
from adaptcp_tf._src.reports import SaveReport
from tests.support import checkpoints, tables, two_tiers

UNKNOWN = {field.name: 1 for field in dataclasses.fields(SaveReport)}


def report_of(step, **values):
    """A report of a checkpoint that is not uploaded yet."""
    defaults = {"step": step, "wall_time": float(step), "seconds_to_uploaded": None}
    return SaveReport(**{**UNKNOWN, **defaults, **values})


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
    assert len(list(tmp_path.glob("history/*.jsonl"))) == 2


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
    names = sorted(path.stem for path in tmp_path.glob("history/*.jsonl"))
    assert [int(name) for name in names] == [1, 3, 5]
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
        (tmp_path / "history" / "0000000000000001.jsonl" / "x").mkdir(parents=True)
        checkpoints.save(manager, 1)
        checkpoints.save(manager, 2)
        assert manager.all_steps() == [1, 2]
    complaints = [r for r in caplog.records if "history" in r.getMessage()]
    assert len(complaints) == 1


def test_damaged_lines_are_left_out(tmp_path):
    checkpoints.chain(tmp_path)
    (path,) = tmp_path.glob("history/*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\xff{]\n[1]\n{}\n" + lines[1] + lines[2][:-20])
    assert steps(tmp_path) == [10, 20]


def test_hung_directory_holds_up_no_save_to_the_buffer(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_REPORTS_PER_FILE", 1)  # a write for each
    tiers = Tiers(tmp_path / "remote", tmp_path / "buffer")
    history = HistoryLog(tiers)
    write, begun, answered = log.files.write_durably, threading.Event(), threading.Event()

    def hang(path, data):
        if path.startswith(tiers.directory):
            begun.set()
            assert answered.wait(60)
        write(path, data)

    monkeypatch.setattr(log.files, "write_durably", hang)
    uploading = threading.Thread(
        target=history.uploaded, args=(report_of(1, seconds_to_uploaded=2.0),)
    )
    uploading.start()
    assert begun.wait(60)
    saving = threading.Thread(target=history.saved, args=(report_of(2), None))
    saving.start()
    saving.join(10)
    held_up = saving.is_alive()
    answered.set()
    for thread in (saving, uploading):
        thread.join()
    assert not held_up
    history.close()
    assert steps(tmp_path / "remote") == steps(tmp_path / "buffer") == [1, 2]


def test_log_is_closed_while_its_thread_is_in_it(tmp_path, monkeypatch):
    """As a finalizer does, which runs wherever a thread allocates memory."""
    history = HistoryLog(Tiers(tmp_path))
    write = log.files.write_durably

    def closing(path, data):
        monkeypatch.setattr(log.files, "write_durably", write)
        history.close()
        write(path, data)

    tmp_path.joinpath("history").mkdir()
    monkeypatch.setattr(log.files, "write_durably", closing)
    saving = threading.Thread(target=history.saved, args=(report_of(1), None), daemon=True)
    saving.start()
    saving.join(10)
    assert not saving.is_alive()
    assert steps(tmp_path) == [1]


def test_upload_that_is_over_first_stays_noted(tmp_path):
    history = HistoryLog(Tiers(tmp_path / "remote", tmp_path / "buffer"))
    history.uploaded(report_of(1, seconds_to_uploaded=2.0))
    history.saved(report_of(1), None)
    history.close()
    for tier in ("remote", "buffer"):
        (line,) = read_history(tmp_path / tier)
        assert line["seconds_to_uploaded"] == 2.0


def test_step_that_is_saved_again_replaces_an_upload(tmp_path):
    history = HistoryLog(Tiers(tmp_path / "remote", tmp_path / "buffer"))
    history.uploaded(report_of(1, seconds_to_uploaded=2.0))
    history.saved(report_of(1, wall_time=9.0), None)
    history.close()
    (line,) = read_history(tmp_path / "buffer")
    assert (line["wall_time"], line["seconds_to_uploaded"]) == (9.0, None)


def test_numbers_that_are_not_finite_are_unknown(tmp_path):
    history = HistoryLog(Tiers(tmp_path))
    history.saved(report_of(1, hot_threshold=math.inf, rho=math.nan), None)
    history.close()
    (line,) = read_history(tmp_path)
    assert (line["hot_threshold"], line["rho"], line["bytes"]) == (None, None, 1)


def test_buffer_keeps_the_newest_files_and_the_directory_all(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_REPORTS_PER_FILE", 2)
    monkeypatch.setattr(log, "_FILES_IN_BUFFER", 3)
    tiers = Tiers(tmp_path / "remote", tmp_path / "buffer")
    for first in range(1, 17, 4):  # processes
        history = HistoryLog(tiers)
        for step in range(first, first + 4):
            history.saved(report_of(step), None)
        history.close()
    assert steps(tmp_path / "buffer") == list(range(11, 17))
    assert steps(tmp_path / "remote") == list(range(1, 17))


def test_larger_files_are_written_less_often(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_REPORTS_PER_SEC", 1 / 3600)
    history = HistoryLog(Tiers(tmp_path))
    now = log.time.monotonic()
    monkeypatch.setattr(log.time, "monotonic", lambda: now)
    history.saved(report_of(1), None)
    now += 3000
    history.saved(report_of(2), None)
    assert steps(tmp_path) == [1]
    now += 1000
    history.saved(report_of(3), None)
    assert steps(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("module", [files_of_reports])
def test_examples_run(module):
    assert doctest.testmod(module).failed == 0
