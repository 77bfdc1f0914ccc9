# SPDX-License-Identifier: Apache-2.0
"""Rows stored with fewer bits: how near they come back, what the manifest says, who refuses them."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.policy import CheckNRun, Incremental
from tests.support import fitting, models, tables

DIM = 16
ROWS = 300
# Most that a value from -1 to 1 may be off.
TOLERANCES = {"bfloat16": 2**-8, "float16": 2**-11, "int8": 1 / 255, "int4": 0.9}


def values(rows, keys, dtype=np.float32):
    return np.stack([np.frombuffer(rows[key], dtype) for key in keys])


def save(directory, steps=(1, 2, 3), restore=False, **options):
    """Trains a new variable for some steps; returns its rows."""
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(directory, variable, **options)
    if restore:
        manager.restore()
    for step in steps:
        tables.fill(variable, range(step * 10, ROWS), seed=step)
        manager.save(step)
    manager.close()
    return tables.rows_of(variable)


def restore(directory, step=None, **options):
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(directory, variable, **options)
    report = manager.restore(step)
    manager.close()
    return tables.rows_of(variable), report


@pytest.mark.parametrize("encoding", TOLERANCES)
def test_rows_come_back_near_and_the_manifest_says_so(tmp_path, encoding):
    expected = save(tmp_path, encoding=encoding)
    restored, report = restore(tmp_path)
    assert restored.keys() == expected.keys()
    off = np.abs(values(restored, expected) - values(expected, expected))
    assert 0 < off.max() <= TOLERANCES[encoding]
    assert not report.exact
    manifest = CheckpointStore(str(tmp_path)).read(3)
    assert {segment.encoding for segment in manifest.segments} == {encoding}
    assert manifest.encodings == sorted([encoding, "raw"])


def test_default_keeps_every_bit(tmp_path):
    expected = save(tmp_path)
    restored, report = restore(tmp_path, exact=True)
    assert restored == expected
    assert report.exact
    assert CheckpointStore(str(tmp_path)).read(3).exact


def test_fewer_bits_are_fewer_bytes(tmp_path):
    sizes = []
    for encoding in ("raw", "bfloat16", "int8", "int4"):
        save(tmp_path / encoding, encoding=encoding)
        sizes.append(CheckpointStore(str(tmp_path / encoding)).read(3).totals["bytes"])
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] < 0.65 * sizes[0]


def test_a_chain_may_have_several_encodings(tmp_path):
    save(tmp_path, steps=(1, 2), strategy="incremental")
    expected = save(tmp_path, steps=(3,), restore=True, strategy="incremental", encoding="int8")
    restored, report = restore(tmp_path)
    assert not report.exact
    off = np.abs(values(restored, expected) - values(expected, expected))
    assert 0 < off.max() <= TOLERANCES["int8"]
    # Rows that the third checkpoint did not write are those of the exact base.
    untouched = [key for key in expected if restored[key] == expected[key]]
    assert len(untouched) >= 20
    before, report = restore(tmp_path, 2)
    assert report.exact and before != restored


def test_policy_that_wants_an_encoding_has_it(tmp_path):
    save(tmp_path, strategy=CheckNRun(4), encoding="bfloat16", slot_encoding="bfloat16")
    segments = CheckpointStore(str(tmp_path)).read(3).segments
    assert {(s.encoding, s.slot_encoding) for s in segments} == {("int4", "bfloat16")}


def test_slots_have_an_encoding_of_their_own(tmp_path):
    def run(**arguments):
        return fitting.start(
            tmp_path, lambda: models.dataset(6), slot_encoding="bfloat16", **arguments
        )

    run(stop_after=5)
    segments = CheckpointStore(str(tmp_path)).read(3).segments
    assert {(s.encoding, s.slot_encoding) for s in segments} == {("raw", "bfloat16")}
    resumed, whole = run(), fitting.plain(lambda: models.dataset(6))
    assert resumed.parts != whole.parts
    assert resumed.logs[-1]["loss"] == pytest.approx(whole.logs[-1]["loss"], rel=0.02)


@pytest.mark.parametrize("values_dtype", [tf.float16, tf.bfloat16, tf.int8, tf.int64])
def test_other_dtypes_are_stored_as_they_are(tmp_path, values_dtype):
    variable, fresh = (tables.make_variable(values=values_dtype, dim=DIM) for _ in range(2))
    expected = tables.fill(variable, range(50))
    restored = tables.saved_and_restored(tmp_path, variable, fresh, encoding="int4")
    assert restored == expected


def test_doubles_are_encoded(tmp_path):
    variable, fresh = (tables.make_variable(values=tf.float64, dim=DIM) for _ in range(2))
    expected = tables.fill(variable, range(50))
    restored = tables.saved_and_restored(tmp_path, variable, fresh, encoding="bfloat16")
    off = values(restored, expected, np.float64) - values(expected, expected, np.float64)
    assert 0 < np.abs(off).max() <= TOLERANCES["bfloat16"]


@pytest.mark.parametrize("name", ["encoding", "slot_encoding"])
def test_exact_refuses_an_encoding(tmp_path, name):
    with pytest.raises(errors.InvalidOptionError, match=f"for {name}. Received: 'int8'.*exact"):
        save(tmp_path, exact=True, **{name: "int8"})


def test_exact_refuses_a_strategy_that_quantises(tmp_path):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy=CheckNRun(4), exact=True)
    tables.fill(variable, range(9))
    with pytest.raises(errors.InvalidOptionError, match="'check_n_run' stores rows as int4"):
        manager.save(1)
    assert manager.all_steps() == []
    manager.close()


def test_exact_refuses_to_restore_and_changes_nothing(tmp_path):
    save(tmp_path, encoding="int8")
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(tmp_path, variable, exact=True)
    before = tables.fill(variable, range(7), seed=9)
    with pytest.raises(errors.InexactCheckpointError, match="stored as int8, raw, exact=True"):
        manager.restore()
    assert tables.rows_of(variable) == before
    manager.close()


@pytest.mark.parametrize("changes", [{"encoding": "int5"}, {"hot_threshold": -1.0}])
def test_policy_that_decides_what_cannot_be_is_refused(tmp_path, changes):
    class Wrong(Incremental):
        def decide(self):
            return dataclasses.replace(super().decide(), **changes)

    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable, strategy=Wrong())
    with pytest.raises(errors.InvalidOptionError, match="decided what cannot be"):
        manager.save(1)
    manager.close()


def test_unknown_encoding_is_refused(tmp_path):
    with pytest.raises(errors.InvalidOptionError, match="Received: 'int5'. Expected: one of raw"):
        save(tmp_path, encoding="int5")
