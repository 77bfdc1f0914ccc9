# SPDX-License-Identifier: Apache-2.0
"""Deltas that are missing, out of order, of another training or damaged: refused, nothing applied."""

import itertools
import json
import shutil

import pytest
import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import deltas, faults, tables


@pytest.fixture
def serving(tmp_path):
    """Deltas from step 1 to 2 and from 2 to 3, and a variable that holds step 1."""
    variable = tables.make_variable()
    states = deltas.run(tmp_path / "run", variable, steps=3)
    for step in (2, 3):
        acp.export.delta(tmp_path / "run", step - 1, step, tmp_path / f"delta{step}")
    serving = deltas.fresh(variable)
    deltas.load_full(serving, states[1][0])
    return serving


def test_missing_repeated_and_reordered_deltas_are_refused(tmp_path, serving):
    before = tables.rows_of(serving)
    with pytest.raises(
        errors.DeltaOrderError, match="from step 2 to 3. Received: tables at step 1"
    ):
        acp.importing.delta([serving], tmp_path / "delta3", at=1)
    assert tables.rows_of(serving) == before
    state = acp.importing.delta([serving], tmp_path / "delta2", at=1)
    after = tables.rows_of(serving)
    with pytest.raises(errors.DeltaOrderError, match="applied before"):
        acp.importing.delta([serving], tmp_path / "delta2", at=state)
    assert tables.rows_of(serving) == after
    assert acp.importing.delta([serving], tmp_path / "delta3", at=state).step == 3


def test_what_may_be_given_as_state(tmp_path, serving):
    with pytest.raises(errors.InvalidOptionError, match="value for at"):
        acp.importing.delta([serving], tmp_path / "delta2", at="1")


def test_delta_of_another_run_is_refused(tmp_path, serving):
    """The other run trained the same rows in the same steps."""
    other = tables.make_variable()
    deltas.run(tmp_path / "other", other, steps=3)
    acp.export.delta(tmp_path / "other", 2, 3, tmp_path / "other3")
    state = acp.importing.delta([serving], tmp_path / "delta2", at=1)
    before = tables.rows_of(serving)
    with pytest.raises(errors.DeltaOrderError, match="another checkpoint of step 2"):
        acp.importing.delta([serving], tmp_path / "other3", at=state)
    assert tables.rows_of(serving) == before
    assert acp.importing.delta([serving], tmp_path / "delta3", at=state).step == 3


@pytest.mark.parametrize("same", [True, False])
def test_delta_from_a_step_that_was_trained_again_is_refused(tmp_path, serving, same):
    """Whether or not the second time gave the same rows, and though both go on from step 1."""
    state = acp.importing.delta([serving], tmp_path / "delta2", at=1)
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    for step in (2, 3):
        (tmp_path / "again" / f"manifest-{step:016d}.json").unlink()
    variable = tables.make_variable()
    manager = deltas.manage(tmp_path / "again", variable)
    manager.restore(1)
    for step in (2, 3):
        deltas.change(variable, step)
        if not same:
            tables.fill(variable, [1, 2], seed=9)
        manager.save(step)
    manager.close()
    acp.export.delta(tmp_path / "again", 2, 3, tmp_path / "again3")
    before = tables.rows_of(serving)
    with pytest.raises(errors.DeltaOrderError, match="the run was repeated"):
        acp.importing.delta([serving], tmp_path / "again3", at=state)
    assert tables.rows_of(serving) == before


@pytest.fixture(params=deltas.FORMATS)
def damageable(request, tmp_path):
    """A delta whose every table is changed and loses rows, and variables to apply it to."""
    kinds = {"users": tf.float32, "items": tf.int32}
    variables = [tables.make_variable(name, values=values) for name, values in kinds.items()]
    states = deltas.run(tmp_path / "run", *variables, steps=2)
    out = tmp_path / "delta"
    acp.export.delta(tmp_path / "run", 1, 2, out, format=request.param)
    serving = [deltas.fresh(variable) for variable in variables]
    for variable, rows in zip(serving, states[1]):
        deltas.load_full(variable, rows)
    return out, serving


def files_of(out):
    """The files of rows of a delta."""
    return sorted(path for path in out.iterdir() if path.suffix != ".json")


def refused(out, serving, *parts):
    """Applies a delta, which must fail with all these parts in the message and change nothing."""
    before = [tables.rows_of(variable) for variable in serving]
    with pytest.raises(errors.CorruptCheckpointError) as caught:
        acp.importing.delta(serving, out, at=1)
    for part in (*parts, "Received: ", "Expected: ", "the delta again"):
        assert part in str(caught.value)
    assert [tables.rows_of(variable) for variable in serving] == before
    return caught.value


def test_flipped_bit_of_any_file_is_refused(damageable):
    out, serving = damageable
    listing = json.loads((out / "adaptcp-delta.json").read_bytes())
    names = {
        file["name"]
        for table in listing["tables"]
        for file in (*table["files"], *table["removed_files"])
    }
    assert names == {path.name for path in files_of(out)}
    for path in files_of(out):
        sound = path.read_bytes()
        for offset in (0, len(sound) // 2, len(sound) - 1):
            faults.flip(path, offset)
            error = refused(out, serving, str(path), "sha256:")
            assert error.path == str(path) and error.expected != error.received
            path.write_bytes(sound)
    assert acp.importing.delta(serving, out, at=1).step == 2


def test_missing_and_cut_files_are_refused(damageable):
    out, serving = damageable
    for path in files_of(out):
        sound = path.read_bytes()
        faults.truncate(path, -1)
        refused(out, serving, str(path), f"{len(sound) - 1} bytes", f"{len(sound)} bytes")
        path.unlink()
        refused(out, serving, str(path), "no file")
        path.write_bytes(sound)
    assert acp.importing.delta(serving, out, at=1).step == 2


def test_files_that_changed_places_are_refused(damageable):
    """Of equal sizes if there are such, so that only what is in them tells."""
    out, serving = damageable
    pairs = [
        (one, other)
        for one, other in itertools.combinations(files_of(out), 2)
        if one.read_bytes() != other.read_bytes()
    ]
    one, other = min(
        pairs, key=lambda pair: abs(len(pair[0].read_bytes()) - len(pair[1].read_bytes()))
    )
    faults.swap(one, other)
    assert refused(out, serving).path in (str(one), str(other))


def test_file_of_another_delta_is_refused(tmp_path, serving):
    shutil.copytree(tmp_path / "delta3", tmp_path / "mixed")
    shutil.copy(tmp_path / "delta2" / "adaptcp-delta.json", tmp_path / "mixed")
    refused(tmp_path / "mixed", [serving], "g0-")


@pytest.mark.parametrize("field", ["from_step", "to_step", "rows", "checksum", "variable"])
def test_flipped_bit_of_the_listing_is_refused(tmp_path, serving, field):
    path = tmp_path / "delta2" / "adaptcp-delta.json"
    sound = path.read_bytes()
    # The last letter or digit of the value.
    end = sound.index(b"\n", sound.index(f'"{field}": '.encode()))
    offset = max(i for i in range(end) if chr(sound[i]).isalnum())
    path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 1]) + sound[offset + 1 :])
    refused(tmp_path / "delta2", [serving], str(path), "checksum")


def test_delta_without_checksums_is_refused(tmp_path, serving):
    path = tmp_path / "delta2" / "adaptcp-delta.json"
    listing = {**json.loads(path.read_bytes()), "format_version": 1}
    del listing["checksum"]
    path.write_text(json.dumps(listing))
    refused(tmp_path / "delta2", [serving], str(path), "version 1", "version 2")
    path.write_text("{}")
    refused(tmp_path / "delta2", [serving], str(path))
    path.write_text("[")
    refused(tmp_path / "delta2", [serving], str(path))


def test_other_variables_are_refused(tmp_path, serving):
    for other in (tables.make_variable("users"), tables.make_variable(dim=5)):
        with pytest.raises(errors.IncompatibleModelError, match="'emb'"):
            acp.importing.delta([other], tmp_path / "delta2", at=1)
        assert tables.rows_of(other) == {}


def test_wrong_steps_formats_and_keys_are_refused(tmp_path):
    variable = tables.make_variable(keys=tf.string)
    deltas.run(tmp_path / "run", variable, steps=2)
    cases = [
        ((2, 1), {}, errors.InvalidOptionError, "more than 2"),
        ((1, 7), {}, errors.CheckpointNotFoundError, "step 7"),
        ((1, 2), {"format": "csv"}, errors.InvalidOptionError, "npz, parquet, tfra"),
        ((1, 2), {"format": "tfra"}, errors.InvalidOptionError, "string keys"),
    ]
    for steps, options, error, message in cases:
        with pytest.raises(error, match=message):
            acp.export.delta(tmp_path / "run", *steps, tmp_path / "out", **options)
    assert not list(tmp_path.glob("out*"))
