# SPDX-License-Identifier: Apache-2.0
"""What exports tell of how far they are: it only rises, and ends with all bytes of the checkpoint."""

import pytest

import adaptcp_tf as acp
from adaptcp_tf._src.export import reading
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import models, tables


def check(told, segments):
    """Of the checkpoint's bytes at each call, and several calls a shard."""
    total = sum(segment.bytes for segment in segments)
    assert {of for _, of in told} == {total}
    done = [done for done, _ in told]
    assert done == sorted(done) and done[-1] == total
    assert 0 < done[0] < total


@pytest.mark.parametrize("row_format", ["npz", "parquet", "tfra"])
def test_rows_are_counted_as_they_are_written(tmp_path, monkeypatch, row_format):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 300)
    run = [tables.make_variable("users", shards=2), tables.make_variable("items")]
    manager = tables.manage(tmp_path / "run", *run, strategy="incremental")
    for step in (1, 2):
        for variable in run:
            tables.fill(variable, range(100 * step), seed=step)
        manager.save(step)
        manager.wait()
    manager.close()
    told = []
    getattr(acp.export, f"{row_format}_files")(
        tmp_path / "run", tmp_path / "out", watch=lambda *amounts: told.append(amounts)
    )
    check(told, CheckpointStore(tmp_path / "run").read(2).segments)
    assert len(told) >= (9 if row_format == "tfra" else 20)


def test_only_what_a_saved_model_serves_counts(tmp_path):
    model, other = models.build(), tables.make_variable("other")
    tables.fill(other, range(500))
    manager = acp.CheckpointManager(str(tmp_path / "run"), model=model, variables=[other])
    models.train(model, models.dataset(2))
    manager.save(1)
    acp.export.saved_model(model, export_dir=tmp_path / "template")
    manager.close()
    told = []
    acp.export.saved_model_from_template(
        tmp_path / "template",
        tmp_path / "run",
        export_dir=tmp_path / "out",
        watch=lambda *amounts: told.append(amounts),
    )
    segments = CheckpointStore(tmp_path / "run").read(1).segments
    check(told, [segment for segment in segments if segment.group != "other"])
