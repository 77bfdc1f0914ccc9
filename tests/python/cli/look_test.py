# SPDX-License-Identifier: Apache-2.0
"""`adaptcp ls` and `adaptcp show`: what they print of a directory, and to whom."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf.cli import main
from tests.support import checkpoints, faults, processes, terminals, two_tiers


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    checkpoints.chain(directory)
    return str(directory)


def printed(capsys, *arguments, status=0):
    assert main(list(arguments)) == status
    return capsys.readouterr().out


def as_json(capsys, *arguments, status=0):
    return json.loads(printed(capsys, *arguments, "--json", status=status))


def test_list_has_what_each_checkpoint_wrote_and_reads(run, capsys):
    listed = as_json(capsys, "ls", run)
    assert listed["directory"] == run
    assert [one["step"] for one in listed["checkpoints"]] == [10, 20, 30]
    base, first, second = listed["checkpoints"]
    assert (base["kind"], first["kind"], second["since_base"]) == ("base", "delta", 2)
    assert base["bytes_written"] == base["bytes_restore"]
    assert (base["rows"], first["rows"], second["rows"]) == (120, 135, 136)
    sizes = {}
    for step in (10, 20, 30):
        sizes.update(CheckpointStore(run).read(step).files())
    assert sum(one["bytes_written"] for one in listed["checkpoints"]) == sum(sizes.values())


def test_tables_fit_eighty_columns(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for verb in ("ls", "show"):
        lines = printed(capsys, verb, run).splitlines()
        assert max(map(len, lines)) <= 80
        assert not any("…" in line for line in lines)
        assert any(line.lstrip().startswith("30") or "30, delta" in line for line in lines)


def test_long_names_are_folded_not_cut(tmp_path, capsys, monkeypatch):
    name = "tower/" * 20 + "[red]emb"
    variable = checkpoints.tables.make_variable(name)
    manager = checkpoints.tables.manage(tmp_path, variable)
    checkpoints.save(manager, 1)
    manager.close()
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, "show", str(tmp_path)).splitlines()
    assert max(map(len, lines)) <= 80
    shown = "".join(line.split()[0] for line in lines if line.strip())
    assert name in shown


def test_show_explains_the_newest(run, capsys):
    text = printed(capsys, "show", run)
    assert "30, delta, 2 after its base" in text
    assert "2 variables" in text
    for word in ("users", "items", "base", "increment", "tensorflow 2.", "incremental"):
        assert word in text


def test_show_json_is_the_manifest(run, capsys):
    shown = as_json(capsys, "show", run, "--step", "20")
    with open(f"{run}/manifest-0000000000000020.json", encoding="ascii") as file:
        assert shown == json.load(file)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "{run}", "--step", "11"],
        ["show", "{run}", "--step", "-1"],
        ["ls", "{run}/nowhere"],
        ["verify", "{run}/nowhere"],
        ["verify", "{run}", "--step", "11"],
    ],
)
def test_what_is_not_there_is_wrong_use(run, capsys, arguments):
    arguments = [argument.format(run=run) for argument in arguments]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"adaptcp {arguments[0]}: ")
    assert run in error or "Invalid value for step" in error


def test_directory_without_checkpoints_is_no_problem(tmp_path, capsys):
    assert as_json(capsys, "ls", str(tmp_path))["checkpoints"] == []
    assert "no checkpoints" in printed(capsys, "ls", str(tmp_path))
    assert "no checkpoints" in printed(capsys, "verify", str(tmp_path))


def test_damaged_manifest_is_a_problem_and_hides_no_other(tmp_path, capsys):
    checkpoints.chain(tmp_path)
    faults.flip(tmp_path / "manifest-0000000000000020.json", 100)
    listed = as_json(capsys, "ls", str(tmp_path), status=1)
    assert [one["step"] for one in listed["checkpoints"]] == [10, 30]
    assert "manifest-0000000000000020.json" in listed["unreadable"][0]


def test_quantised_checkpoints_are_told(tmp_path, capsys):
    checkpoints.chain(tmp_path, encoding="bfloat16")
    assert "quantised" in printed(capsys, "ls", str(tmp_path))
    assert "quantised" in printed(capsys, "show", str(tmp_path))


def test_buffer_is_listed_too(tmp_path, capsys):
    with two_tiers.running(tmp_path) as run:
        manager = run.manage()
        run.save(manager, 1)
        manager.wait()
        manager.close()
        assert [one["step"] for one in as_json(capsys, "ls", str(run.local))["checkpoints"]] == [1]
        assert as_json(capsys, "verify", str(run.local))["steps"] == [1]


def test_verbs_explain_themselves(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    verbs = ("ls", "show", "verify", "diff", "gc", "compact", "export", "plot", "simulate")
    assert all(f"    {verb} " in text for verb in verbs)
    assert max(map(len, text.splitlines())) <= 80
    for verb in verbs:
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        text = capsys.readouterr().out
        assert f"\n  adaptcp {verb} " in text, "an example to start from"
        assert max(map(len, text.splitlines())) <= 100


def test_colours_are_for_terminals_only(run, capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in printed(capsys, "verify", run)
    reading_end, other_end = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "adaptcp_tf.cli", "verify", run],
        env={**processes.ENVIRONMENT, "TERM": "xterm-256color"},
        stdout=other_end,
        stderr=other_end,
        check=True,
    )
    os.close(other_end)
    shown = os.read(reading_end, 1 << 20)
    os.close(reading_end)
    assert b"3 checkpoints are good" in shown
    assert b"\x1b[32m" in shown


def test_progress_is_shown_on_terminals_after_a_second(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with terminals.standard_error_is_one(monkeypatch) as shown:
        with terminal.progress("a short one") as watch:
            watch(0, 4000)
        with terminal.progress("a long one") as watch:
            watch(0, 4000)
            time.sleep(1.3)
            watch(3000, 4000)
            print("meanwhile")
            time.sleep(0.3)
    assert capsys.readouterr().out == "meanwhile\n"
    assert "a long one" in shown and "3.0/4.0 kB" in shown
    assert "a short one" not in shown
