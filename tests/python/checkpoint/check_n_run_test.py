# SPDX-License-Identifier: Apache-2.0
"""Check-N-Run: stop-and-copy snapshots, quantised or not, and how exactly they come back."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.policy import CheckNRun
from tests.support import fitting, models, tables

DIM = 16
ROWS = 400


def save_and_restore(directory, policy):
    """Rows before and after, the manifest, and the report of the restore."""
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(directory, variable, strategy=policy)
    for step in (1, 2, 3):
        tables.fill(variable, range(step * 10, ROWS), seed=step)
        manager.save(step)
    manager.wait()
    expected = tables.rows_of(variable)
    manager.close()
    fresh = tables.make_variable(dim=DIM)
    other = tables.manage(directory, fresh)
    report = other.restore()
    other.close()
    return expected, tables.rows_of(fresh), CheckpointStore(str(directory)).read(3), report


def values(rows, keys):
    return np.stack([np.frombuffer(rows[key], np.float32) for key in keys])


def test_without_quantisation_every_bit_comes_back(tmp_path):
    expected, restored, manifest, report = save_and_restore(tmp_path, "check_n_run")
    assert restored == expected
    assert report.exact
    assert {segment.kind for segment in manifest.segments} == {"base", "differential"}
    assert {segment.encoding for segment in manifest.segments} == {"raw"}


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_quantised_rows_come_back_within_a_step(tmp_path, caplog, bits):
    with caplog.at_level(logging.WARNING, "adaptcp_tf"):
        expected, restored, manifest, report = save_and_restore(tmp_path, CheckNRun(bits))
    assert restored.keys() == expected.keys()
    trained, found = values(expected, expected), values(restored, expected)
    # A narrowed range leaves at most 0.4 of it outside on one side.
    width = np.ptp(trained, axis=1, keepdims=True)
    off = 0.5 / (2**bits - 1) + (0.4 if bits <= 4 else 0)
    assert (np.abs(found - trained) <= off * width * 1.0001).all()
    assert (found != trained).any()
    assert not report.exact
    assert "step 3 was quantised" in caplog.text
    assert {segment.encoding for segment in manifest.segments} == {f"int{bits}"}
    # Rows of 64 bytes become codes and two floats; a key and what the tracker knows stay.
    rows = sum(segment.rows for segment in manifest.segments)
    overhead = sum(segment.bytes for segment in manifest.segments) - rows * (15 + 8 + 2 * bits)
    assert 0 < overhead < 1000 * len(manifest.segments)


def test_more_bits_are_nearer(tmp_path):
    errors = []
    for bits in (2, 3, 4, 8):
        expected, restored, *_ = save_and_restore(tmp_path / str(bits), CheckNRun(bits))
        errors.append(np.square(values(restored, expected) - values(expected, expected)).sum())
    assert all(more > 2 * fewer for more, fewer in zip(errors, errors[1:]))


def test_interrupted_copy_leaves_no_cut_behind(tmp_path, monkeypatch):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy="check_n_run")
    expected = tables.fill(variable, range(ROWS))
    (shard,) = tables.group_of(variable).shards

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(shard, "copy_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        manager.save(1)
    monkeypatch.undo()
    manager.save(2)
    manager.wait()
    assert manager.all_steps() == [2]
    manager.restore()
    assert tables.rows_of(variable) == expected
    manager.close()


def test_training_that_goes_on_finds_nothing_left_to_save(tmp_path):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy="check_n_run")
    expected = tables.fill(variable, range(ROWS))
    manager.save(1)
    tables.fill(variable, range(ROWS), seed=1)
    manager.wait()
    assert manager.reports[0].rows_saved_on_update == 0
    assert manager.reports[0].rows_drained == ROWS
    manager.restore()
    assert tables.rows_of(variable) == expected
    manager.close()


@pytest.mark.parametrize("quantize_slots", [False, True])
def test_slots_are_quantised_only_on_demand(tmp_path, quantize_slots):
    def run(**arguments):
        policy = CheckNRun(8, quantize_slots=quantize_slots)
        return fitting.start(tmp_path, lambda: models.dataset(6), strategy=policy, **arguments)

    run(stop_after=5)
    manifest = CheckpointStore(str(tmp_path)).read(3)
    encodings = {(segment.encoding, segment.slot_encoding) for segment in manifest.segments}
    assert encodings == {("int8", "int8" if quantize_slots else "raw")}
    resumed = run()
    assert CheckpointStore(str(tmp_path)).latest_step() == 18
    assert len(resumed.logs) == 3
    assert np.isfinite([log["loss"] for log in resumed.logs]).all()


def test_training_goes_on_near_where_it_was(tmp_path):
    def dataset():
        return models.dataset(6)

    uninterrupted = fitting.plain(dataset)
    fitting.start(tmp_path, dataset, strategy=CheckNRun(8), stop_after=5)
    resumed = fitting.start(tmp_path, dataset, strategy=CheckNRun(8))
    assert resumed.parts != uninterrupted.parts
    assert resumed.logs[-1]["loss"] == pytest.approx(uninterrupted.logs[-1]["loss"], rel=0.02)


def test_integer_tables_keep_every_bit(tmp_path):
    variable = tables.make_variable(values=tf.int64, dim=DIM)
    fresh = tables.make_variable(values=tf.int64, dim=DIM)
    expected = tables.fill(variable, range(ROWS))
    restored = tables.saved_and_restored(tmp_path, variable, fresh, strategy=CheckNRun(2))
    assert restored == expected
