# SPDX-License-Identifier: Apache-2.0
"""`adaptcp export`: what it writes, prints and refuses."""

import json

import pytest

from adaptcp_tf.cli import main
from tests.support import faults, tables


@pytest.fixture
def run(tmp_path):
    """A directory with two checkpoints, of 30 and 50 rows."""
    variable = tables.make_variable(shards=2)
    manager = tables.manage(tmp_path / "run", variable)
    for step, rows in ((10, 30), (20, 50)):
        tables.fill(variable, range(rows))
        manager.save(step)
    manager.close()
    return str(tmp_path / "run")


def test_json_says_what_was_exported(run, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["export", run, "--step", "10", "--format", "tfra", "--json", out]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["step"], report["directory"], report["rows"]) == (10, out, 30)
    assert report["bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert report["files"] == 5


def test_newest_step_is_the_default(run, tmp_path, capsys):
    assert main(["export", run, "--format", "tfra", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("step 20: 50 rows to ")


@pytest.mark.parametrize("arguments", [["--step", "30"], ["--step", "-1"]])
def test_step_that_is_not_there_is_wrong_use(run, tmp_path, capsys, arguments):
    out = str(tmp_path / "out")
    assert main(["export", run, *arguments, "--format", "tfra", out]) == 2
    assert "adaptcp export: " in capsys.readouterr().err


@pytest.mark.parametrize("format_arguments", [[], ["--format", "csv"]])
def test_format_must_be_one_that_there_is(run, tmp_path, capsys, format_arguments):
    with pytest.raises(SystemExit) as caught:
        main(["export", run, str(tmp_path / "out"), *format_arguments])
    assert caught.value.code == 2


def test_damage_is_a_problem(run, tmp_path, capsys):
    (segment,) = tmp_path.glob("run/segments/*10-*/g0-s0of2-base.acp")
    faults.truncate(segment, -1)
    assert main(["export", run, "--format", "tfra", str(tmp_path / "out")]) == 1
    assert segment.name in capsys.readouterr().err
