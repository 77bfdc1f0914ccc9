# SPDX-License-Identifier: Apache-2.0
"""Segments are TFRecord files, which stock TensorFlow reads."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from tests.support import segments, tables


@pytest.fixture
def variable():
    return tables.make_variable(dim=4, restrict_policy=de.FrequencyRestrictPolicy)


def save(manager, directory, step, kind):
    """Saves a step; returns the path of its segment of that kind."""
    manager.save(step)
    manager.wait()
    (path,) = directory.glob(f"segments/{step:016d}-*/g0-s0of1-{kind}.acp")
    return path


def test_segment_of_one_block_holds_header_block_footer_and_trailer(tmp_path, variable):
    manager = tables.manage(tmp_path, variable)
    expected = tables.fill(variable, range(50))
    path = save(manager, tmp_path, 1, "base")
    header, key_record, parameter, status, footer, trailer = segments.records_of(path)
    assert header[:8] == b"ADAPTCP1" and b"emb" in header
    assert key_record[:1] == b"K" and footer[:1] == b"F" and trailer[:8] == b"ADAPTEND"
    ((keys, values),) = segments.blocks_of(path, 2)
    assert values == [parameter, status]
    rows = np.frombuffer(parameter, "<f4").reshape(50, 4)
    assert {key: row.tobytes() for key, row in zip(keys, rows)} == expected
    assert len(status) == 50 * 4  # one int32 a row
    manager.close()


def test_tombstones_are_keys_without_values(tmp_path, variable):
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    expected = tables.fill(variable, range(50))
    save(manager, tmp_path, 1, "base")
    tables.remove(variable, range(10))
    path = save(manager, tmp_path, 2, "increment")
    assert len(segments.records_of(path)) == 4  # header, tombstones, footer, trailer
    ((keys, values),) = segments.blocks_of(path, 2)
    assert (sorted(keys), values) == (sorted(list(expected)[:10]), [])
    manager.close()


def test_long_segment_holds_one_key_and_two_value_records_a_block(tmp_path, variable):
    manager = tables.manage(tmp_path, variable, max_writers=1)
    keys = tf.range(200_000, dtype=tf.int64)
    variable.upsert(keys, tf.tile(tf.cast(keys[:, None], tf.float32), [1, 4]))
    path = save(manager, tmp_path, 1, "base")
    blocks = list(segments.blocks_of(path, 2))
    assert len(blocks) > 1
    assert len(segments.records_of(path)) == 3 + 3 * len(blocks)
    for keys, (parameter, _) in blocks:
        assert np.frombuffer(parameter, "<f4").reshape(-1, 4)[:, 2].tolist() == keys
    assert sorted(key for keys, _ in blocks for key in keys) == list(range(200_000))
    manager.close()
