# SPDX-License-Identifier: Apache-2.0
"""What all verbs of `adaptcp` have in common: 80 columns, --json, bars on terminals only."""

import json
import re
import shutil
import time

import pytest

import adaptcp_tf as acp
from adaptcp_tf._src.cli import terminal
from adaptcp_tf.cli import main
from tests.support import models, tables, terminals
from tests.support.stores import slow_store

STEPS = (1234567890123454, 1234567890123455, 1234567890123456)
# With what rich would take for a colour and for a picture.
NAME = "tower/" * 20 + "[red]:star:emb"

# Verb -> its arguments; {} are a directory of checkpoints, a SavedModel and a place for files.
COMMANDS = {
    "ls": ["ls", "{run}"],
    "show": ["show", "{run}"],
    "verify": ["verify", "{run}"],
    "diff": ["diff", "{run}", str(STEPS[0]), str(STEPS[2])],
    "gc": ["gc", "{run}", "--keep", "1"],
    "compact": ["compact", "{run}"],
    "export tfra": ["export", "{run}", "--format", "tfra", "{out}"],
    "export npz": ["export", "{run}", "--format", "npz", "{out}"],
    "export parquet": ["export", "{run}", "--format", "parquet", "{out}"],
    "export-savedmodel": ["export-savedmodel", "{run}", "--template", "{model}", "{out}"],
    "plot": ["plot", "{run}", "{out}.png"],
    "simulate": ["simulate", "--rows", "1e6", "--updates", "2e6", "--intervals", "50"],
}
EXPORT = {"step", "checkpoint", "directory", "rows", "bytes", "exact", "seconds"}
KEYS = {
    "ls": {"directory", "checkpoints", "unreadable"},
    "show": {"step", "kind", "segments", "groups", "totals", "checksum"},
    "verify": {"directory", "steps", "bad_steps", "problems", "files", "bytes", "seconds"},
    "diff": {"from_step", "to_step", "groups"},
    "gc": {"dry_run", "kept_steps", "deleted_steps", "files", "bytes", "unreadable"},
    "compact": {"step", "compacted", "rows", "stale_rows", "bytes_before", "bytes_after"},
    "export": {*EXPORT, "files"},
    "export-savedmodel": EXPORT,
    "plot": {"out", "checkpoints"},
    "simulate": {"arguments", "results"},
}
every_verb = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with a model and a variable of a long name, and an older SavedModel of the model."""
    directory = tmp_path_factory.mktemp("trained")
    variable = tables.make_variable(NAME, shards=2)
    model = models.build()
    manager = acp.CheckpointManager(
        str(directory / "run"),
        model=model,
        variables=[variable],
        options=acp.CheckpointOptions(strategy="incremental", when_busy="wait", max_to_keep=None),
    )
    for number, (step, batch) in enumerate(zip(STEPS, models.dataset(3))):
        models.train(model, [batch])
        tables.fill(variable, range(100 * number, 3000), seed=number)
        manager.save(step)
        manager.wait()
    acp.export.saved_model(model, export_dir=directory / "model")
    manager.close()
    return directory


@pytest.fixture
def places(trained, tmp_path):
    """Where a command finds a run that it may change, in directories of long names."""
    there = tmp_path / ("a-directory-with-a-long-name-" * 6)
    shutil.copytree(trained, there)
    return {"run": there / "run", "model": there / "model", "out": there / "out"}


def arguments_of(command, places):
    return [argument.format(**places) for argument in COMMANDS[command]]


def test_no_verb_is_left_out(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    verbs = set(re.findall(r"^    (\S+)(?:  |$)", capsys.readouterr().out, re.MULTILINE))
    assert {command.split()[0] for command in COMMANDS} == verbs == set(KEYS)


@every_verb
def test_text_fits_eighty_columns_and_loses_nothing(places, capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(arguments_of(command, places)) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines and max(map(len, lines)) <= 80
    assert "…" not in printed.out
    assert printed.err == "", "not a terminal, so no bar"
    # Names are folded in the first column.
    first = "".join(line[1:].split(" ")[0] for line in lines if line.startswith(" "))
    if command in ("show", "diff"):
        assert NAME in first
    if command in ("ls", "show", "gc"):
        assert str(STEPS[2]) in printed.out
    if command.startswith(("export", "plot")):
        assert str(places["out"]) in "".join(lines)


@pytest.mark.parametrize("rows", [10**4, 10**11])
def test_numbers_of_any_length_are_whole(capsys, monkeypatch, rows):
    monkeypatch.setenv("COLUMNS", "80")
    columns = ("variable", "rows in B", "added", "changed", "removed", "new data", "new files")
    row = (NAME, *[terminal.number(rows + i) for i in range(4)], "999.9 GB", "123.4 GB")
    terminal.print_table(columns, [row, row])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert all(printed.count(cell) == 2 for cell in row[1:])
    assert all(title in printed for title in columns)


@every_verb
def test_json_is_one_line_of_standard_output(places, capsys, command):
    assert main([*arguments_of(command, places), "--json"]) == 0
    printed = capsys.readouterr()
    (line,) = printed.out.splitlines()
    assert json.loads(line).keys() >= KEYS[command.split()[0]]
    assert printed.err == ""


def test_json_of_an_exported_model_says_what_is_there(places, capsys):
    assert (
        main([*arguments_of("export-savedmodel", places), "--step", str(STEPS[0]), "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (
        main(["export", str(places["run"]), "--format", "npz", "--json", f"{places['out']}2"]) == 0
    )
    newest = json.loads(capsys.readouterr().out)
    variables = list((places["out"] / "variables").iterdir())
    assert (report["step"], report["directory"]) == (STEPS[0], str(places["out"]))
    assert report["bytes"] == sum(path.stat().st_size for path in variables)
    assert 0 < report["rows"] < newest["rows"]
    assert report["exact"] is True and report["seconds"] > 0
    assert report["checkpoint"] != newest["checkpoint"], "of another step"


@every_verb
def test_bar_is_shown_on_terminals_only(places, capsys, monkeypatch, command):
    """On a store that takes its time, so that every verb lasts longer than a second."""
    # Some verbs make few requests, others dozens, one after the other.
    few = command in ("ls", "show", "plot")
    slow_store.configure(latency_secs=0.3 if few else 0.07)
    places["run"] = slow_store.url(places["run"])
    arguments = [*arguments_of(command, places), "--json"]
    with terminals.standard_error_is_one(monkeypatch) as shown:
        assert main(arguments) == 0
    slow_store.configure()
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)
    described = {
        "ls": "reading",
        "show": "reading",
        "verify": "verifying",
        "diff": "comparing",
        "gc": "deleting",
        "compact": "compacting",
        "export": "exporting",
        "export-savedmodel": "exporting",
        "plot": "drawing",
        "simulate": "simulating",
    }
    assert described[command.split()[0]] in shown
    assert "━" in shown


def test_bar_costs_little_however_often_it_is_told(monkeypatch):
    """It is drawn some times a second, not at each call."""
    calls = 50_000
    with terminals.standard_error_is_one(monkeypatch) as shown:
        monkeypatch.setattr(terminal, "_BAR_AFTER_SECS", 0.0)
        with terminal.progress("deleting", of="files") as watch:
            start = time.process_time()
            for done in range(calls):
                watch(done + 1, calls)
            secs_per_call = (time.process_time() - start) / calls
    assert "deleting" in shown and f"{calls}/{calls}" in shown and "files" in shown
    assert secs_per_call < 200e-6
    assert len(shown.data) < calls
