# SPDX-License-Identifier: Apache-2.0
"""Segments are TFRecord files, which stock TensorFlow reads."""

import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from tests.support import tables


def records_of(path):
    """The records of a file, checksums verified, as TensorFlow's own reader sees them."""
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def keys_in(record, count):
    """The int64 keys of a key record: "K", block number, rows, tombstone flag, keys."""
    kind, _, rows, _ = struct.unpack_from("<cIIB", record)
    assert (kind, rows) == (b"K", count)
    return np.frombuffer(record, "<i8", count, offset=10).tolist()


@pytest.fixture
def variable():
    return tables.make_variable(dim=4, restrict_policy=de.FrequencyRestrictPolicy)


def test_segments_of_one_block_hold_header_block_footer_and_trailer(tmp_path, variable):
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    expected = tables.fill(variable, range(50))
    manager.save(1)
    manager.wait()
    (path,) = (tmp_path / "segments").glob("*/g0-s0of1-base.acp")
    header, keys, parameter, status, footer, trailer = records_of(path)
    assert header[:8] == b"ADAPTCP1" and b"emb" in header
    assert footer[:1] == b"F" and trailer[:8] == b"ADAPTEND"
    keys = keys_in(keys, 50)
    rows = np.frombuffer(parameter, "<f4").reshape(50, 4)
    assert {key: row.tobytes() for key, row in zip(keys, rows)} == expected
    assert len(status) == 50 * 4  # one int32 a row

    tables.remove(variable, range(10))
    manager.save(2)
    manager.wait()
    (path,) = (tmp_path / "segments").glob("*/g0-s0of1-increment.acp")
    header, tombstones, footer, trailer = records_of(path)
    assert sorted(keys_in(tombstones, 10)) == sorted(list(expected)[:10])
    manager.close()


def test_long_segments_hold_one_key_and_two_value_records_a_block(tmp_path, variable):
    manager = tables.manage(tmp_path, variable)
    keys = tf.range(200_000, dtype=tf.int64)
    variable.upsert(keys, tf.tile(tf.cast(keys[:, None], tf.float32), [1, 4]))
    manager.save(1)
    manager.wait()
    manager.close()
    (path,) = (tmp_path / "segments").glob("*/*.acp")
    blocks = records_of(path)[1:-2]
    assert len(blocks) % 3 == 0 and len(blocks) >= 6
    seen = []
    for keys, parameter, _ in zip(*(blocks[i::3] for i in range(3))):
        (count,) = struct.unpack_from("<I", keys, 5)
        seen += keys_in(keys, count)
        assert len(parameter) == count * 16
        assert np.frombuffer(parameter, "<f4")[::4].tolist() == seen[-count:]
    assert sorted(seen) == list(range(200_000))
