# SPDX-License-Identifier: Apache-2.0
"""The Criteo log is read field by field, bad lines are named, and a made file has its format."""

import numpy as np
import pytest
from workloads import criteo_file
from workloads.criteo_stream import feature_id


def write_lines(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="ascii")
    return path


def line(label="0", counts=("1",) * 13, values=("0000000a",) * 26):
    return "\t".join([label, *counts, *values])


def test_fields_become_labels_counts_and_ids(tmp_path):
    values = ["68fd1e64", "", *["0000000a"] * 24]
    path = write_lines(tmp_path / "log", line("1", ["", "-2", "7", *["0"] * 10], values))
    ids, dense, labels = criteo_file.read(path)
    assert labels.tolist() == [[1.0]]
    np.testing.assert_allclose(dense[0, :4], [0, 0, np.log(8), 0], rtol=1e-6)
    assert ids[0, 0] == feature_id(1, np.array(0x68FD1E64 + 1))
    assert ids[0, 1] == feature_id(2, np.array(0))


def test_empty_category_differs_from_category_zero(tmp_path):
    path = write_lines(tmp_path / "log", line(values=["00000000"] * 26), line(values=[""] * 26))
    ids = criteo_file.read(path).ids
    assert (ids[0] != ids[1]).all()


def test_order_of_lines_is_kept_and_limit_takes_the_first(tmp_path):
    path = write_lines(tmp_path / "log", line("1"), line("0"), line("1"))
    assert criteo_file.read(path).labels.ravel().tolist() == [1, 0, 1]
    assert criteo_file.read(path, 2).labels.ravel().tolist() == [1, 0]


@pytest.mark.parametrize(
    "bad, message",
    [
        ("1\t2", "Received: 2 columns. Expected: 40"),
        (line(counts=["x"] * 13), "invalid literal"),
        (line(values=["xyz"] * 26), "invalid literal"),
        (line(label=""), "invalid literal"),
    ],
)
def test_bad_line_is_named(tmp_path, bad, message):
    path = write_lines(tmp_path / "log", line(), bad)
    with pytest.raises(ValueError, match=message) as caught:
        criteo_file.read(path)
    assert f"{path}:2 is not a Criteo line" in str(caught.value)


def test_too_few_lines_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"Received: 1. Expected: 2"):
        criteo_file.read(write_lines(tmp_path / "log", line()), 2)


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        criteo_file.read(tmp_path / "log")


def test_generated_file_has_the_format_with_all_its_oddities(tmp_path):
    path = tmp_path / "new" / "log"
    criteo_file.generate(path, 500, seed=1)
    rows = [text.split("\t") for text in path.read_text(encoding="ascii").splitlines()]
    assert len(rows) == 500 and {len(row) for row in rows} == {40}
    counts = [field for row in rows for field in row[1:14]]
    assert "" in counts and any(field.startswith("-") for field in counts)
    values = [field for row in rows for field in row[14:]]
    assert 0.08 < values.count("") / len(values) < 0.14  # the real log: 11 %
    assert all(len(field) in (0, 8) for field in values)
    assert criteo_file.read(path).ids.shape == (500, 26)


def test_generated_file_depends_on_the_seed_only(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        criteo_file.generate(tmp_path / name, 50, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def test_sample_is_taken_from_the_data_folder(tmp_path, monkeypatch):
    sample = write_lines(tmp_path / criteo_file.SAMPLE_NAME, line())
    monkeypatch.setenv("ADAPTCP_DATA", str(tmp_path))
    assert criteo_file.locate() == sample


def test_absent_sample_is_said_and_replaced(tmp_path, monkeypatch, capsys):
    generated = tmp_path / "cache" / "log"
    monkeypatch.setenv("ADAPTCP_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(criteo_file, "GENERATED_FILE", generated)
    assert criteo_file.locate() == generated
    assert "not found" in capsys.readouterr().err
    assert len(criteo_file.read(generated).labels) == criteo_file.SAMPLE_LINES


def test_sample_or_its_replacement_reads_as_8000_samples():
    ids, _, labels = criteo_file.read(criteo_file.locate())
    assert ids.shape == (8_000, 26)
    assert 0.15 < labels.mean() < 0.30
    assert 35_000 < len(np.unique(ids)) < 40_000
