# SPDX-License-Identifier: Apache-2.0
"""Rows of every dtype and length come back bit for bit, and what cannot come back is refused."""

import pytest
import tensorflow as tf

from adaptcp_tf import errors
from tests.support import processes, tables

ROWS = 130


def name_of(keys, values, dim, shards=1):
    return f"emb_{keys.name}_{values.name}_{dim}_{shards}"


@pytest.mark.parametrize("dim", tables.DIMS)
@pytest.mark.parametrize(
    ("keys", "values"), tables.DTYPES, ids=[f"{k.name}-{v.name}" for k, v in tables.DTYPES]
)
def test_distinct_rows_round_trip(tmp_path, keys, values, dim):
    saved = tables.make_variable(keys=keys, values=values, dim=dim)
    expected = tables.fill(saved, range(ROWS))
    assert len(expected) == ROWS
    fresh = tables.make_variable(keys=keys, values=values, dim=dim)
    assert tables.saved_and_restored(tmp_path, saved, fresh) == expected


@pytest.mark.parametrize("shards", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", [tf.int64, tf.int32, tf.string], ids=lambda keys: keys.name)
def test_every_shard_gets_its_own_rows_back(tmp_path, keys, shards):
    saved = tables.make_variable(keys=keys, shards=shards)
    expected = tables.fill(saved, range(300))
    assert all(int(table.size()) > 0 for table in saved.tables)
    fresh = tables.make_variable(keys=keys, shards=shards)
    assert tables.saved_and_restored(tmp_path, saved, fresh) == expected
    assert [int(t.size()) for t in fresh.tables] == [int(t.size()) for t in saved.tables]
    # TFRA finds each key where its partition function looks for it.
    found = fresh.lookup(tables.make_keys(keys, range(300)))
    assert tables.as_dict(tables.make_keys(keys, range(300)), found) == expected


EXTREMES = {
    "int64": [2**63 - 1, -(2**63), 0, -1, 1],
    "int32": [2**31 - 1, -(2**31), 0, -1, 1],
    "string": [b"", b"\0", b"\0\0", b"a" * 70_000, "schlüssel/\n\"'".encode()],
}


@pytest.mark.parametrize("keys", EXTREMES)
def test_extreme_keys_are_keys_like_others(tmp_path, keys):
    saved = tables.make_variable(keys=tf.as_dtype(keys))
    fresh = tables.make_variable(keys=tf.as_dtype(keys))
    rows = tables.make_rows(tf.float32, 4, range(5))
    saved.upsert(tf.constant(EXTREMES[keys], keys), rows)
    expected = dict(zip(EXTREMES[keys], (row.tobytes() for row in rows.numpy())))
    assert tables.saved_and_restored(tmp_path, saved, fresh) == expected


@pytest.mark.parametrize(
    ("values", "special"),
    [
        ("float32", [float("nan"), float("inf"), -0.0, 1e-45]),
        ("bfloat16", [float("nan"), float("-inf"), -0.0, 1e38]),
        ("int8", [-128, 127, 0, -91]),  # -91 is the byte 0xA5
    ],
)
def test_special_values_are_values_like_others(tmp_path, values, special):
    saved = tables.make_variable(values=tf.as_dtype(values))
    fresh = tables.make_variable(values=tf.as_dtype(values))
    rows = tf.constant([special, special[::-1], [special[-1]] * 4, [0] * 4], values)
    saved.upsert(tf.range(4, dtype=tf.int64), rows)
    expected = tables.as_dict(tf.range(4), rows)
    assert tables.saved_and_restored(tmp_path, saved, fresh) == expected


def test_rows_of_any_bytes_are_present(tmp_path):
    """The tracker asks a table for a row with a marker; a row that equals the marker is a row."""
    saved = tables.make_variable(values=tf.int8, dim=2)
    fresh = tables.make_variable(values=tf.int8, dim=2)
    numbers = tf.range(256 * 256, dtype=tf.int64)
    low, high = tf.cast(numbers % 256 - 128, tf.int8), tf.cast(numbers // 256 - 128, tf.int8)
    saved.upsert(numbers, tf.stack([low, high], axis=1))
    assert tables.saved_and_restored(tmp_path, saved, fresh) == tables.rows_of(saved)
    assert int(fresh.size()) == 256 * 256


def test_string_rows_are_refused_when_tracking_starts(tmp_path):
    variable = tables.make_variable(values=tf.string, dim=1, initializer="")
    with pytest.raises(errors.InvalidOptionError, match=r"'emb' cannot be checkpointed.*string"):
        tables.manage(tmp_path, variable)
    # The refusal left nothing behind.
    tables.manage(tmp_path, tables.make_variable()).close()


RESTORE_ALL = """
import sys
import tensorflow as tf
from tests.support import tables
from tests.python.tables.dtypes_test import CASES, ROWS, name_of
variables = [tables.make_variable(name_of(*case), *case) for case in CASES]
manager = tables.manage(sys.argv[1], *variables)
report = manager.restore()
assert report.rows == ROWS * len(CASES), report
for variable in variables:
    for number in (0, 1, ROWS - 1):
        row = variable.lookup(tables.make_keys(variable.key_dtype, [number]))
        expected = tables.make_rows(variable.value_dtype, variable.dim, [number])
        assert row.numpy().tobytes() == expected.numpy().tobytes(), (variable.name, number)
    keys = tables.make_keys(variable.key_dtype, range(ROWS))
    expected = tables.make_rows(variable.value_dtype, variable.dim, range(ROWS))
    assert tables.rows_of(variable) == tables.as_dict(keys, expected), variable.name
print("restored", len(variables))
"""

CASES = [
    *((keys, values, 3, 1) for keys, values in tables.DTYPES),
    *((tf.string, tf.float32, dim, 2) for dim in (100, 101)),
    *((tf.int64, tf.bfloat16, dim, 3) for dim in (100, 101)),
]


def test_another_process_restores_every_dtype(tmp_path):
    variables = [tables.make_variable(name_of(*case), *case) for case in CASES]
    for variable in variables:
        tables.fill(variable, range(ROWS))
    with_manager = tables.manage(tmp_path, *variables)
    with_manager.save(1)
    with_manager.wait()
    with_manager.close()
    done = processes.run(RESTORE_ALL, tmp_path)
    assert done.stdout.splitlines()[-1].split() == ["restored", str(len(CASES))]
