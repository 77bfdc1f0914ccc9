# SPDX-License-Identifier: Apache-2.0
"""`adaptcp plot`: a picture of every run, whatever it knows."""

import json

import pytest
from matplotlib import image

from adaptcp_tf.cli import main
from tests.support import checkpoints, two_tiers

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    checkpoints.chain(directory, max_to_keep=1)
    return directory


def colours(path):
    """The distinct colours of a picture, as (r, g, b) of 0 to 255."""
    pixels = (image.imread(path)[..., :3] * 255).round().astype(int)
    return {tuple(colour) for colour in pixels.reshape(-1, 3)[::7]}


def test_deleted_checkpoints_are_drawn_too(run, tmp_path, capsys):
    out = tmp_path / "out.png"
    assert main(["plot", str(run), str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(out), "checkpoints": 3}
    assert out.read_bytes().startswith(PNG)
    # Bars of the base and of increments, and no differential, which this run has not.
    assert {(0x33, 0x41, 0x5C), (0x5B, 0x9B, 0xD5)} <= colours(out)
    assert (0xF2, 0xA5, 0x41) not in colours(out)


def test_buffered_run_shows_its_upload_lag(tmp_path):
    with two_tiers.running(tmp_path) as buffered:
        manager = buffered.manage()
        for step in (1, 2, 3):
            buffered.save(manager, step)
            manager.wait()
        manager.close()
        out = tmp_path / "out.svg"
        assert main(["plot", str(buffered.local), str(out)]) == 0
    assert b"<svg" in out.read_bytes()


def test_single_checkpoint_and_unknown_values_are_drawn(tmp_path):
    line = {"step": 5, "wall_time": 1.0, "stall_ms": None, "bytes_base": 10}
    path = tmp_path / "history" / "0000000000000005.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(line) + "\n")
    assert main(["plot", str(tmp_path), str(tmp_path / "out.png")]) == 0


def test_picture_goes_to_any_file_system(run, tmp_path):
    two_tiers.slow_store.configure()
    (tmp_path / "remote").mkdir()
    assert main(["plot", str(run), f"{two_tiers.slow_store.url(tmp_path / 'remote')}/a.png"]) == 0
    assert (tmp_path / "remote" / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("out", ["out.gif", "out", "nowhere/out.png"])
def test_wrong_names_are_wrong_use(run, tmp_path, capsys, out):
    assert main(["plot", str(run), str(tmp_path / out)]) == 2
    assert "adaptcp plot: " in capsys.readouterr().err


def test_directory_without_history_is_wrong_use(tmp_path, capsys):
    assert main(["plot", str(tmp_path), str(tmp_path / "out.png")]) == 2
    assert "There is no history" in capsys.readouterr().err
