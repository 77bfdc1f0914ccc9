# SPDX-License-Identifier: Apache-2.0
"""Reads segments with TensorFlow's own TFRecord reader, checksums verified."""

import struct

import numpy as np
import tensorflow as tf

_KEY_RECORD = struct.Struct("<cIIB")  # "K", block number, rows, whether they are tombstones


def records_of(path):
    """The payloads of all records of a segment."""
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def blocks_of(path, num_tables):
    """Yields (int64 keys, one value record a table) of each block; no values for tombstones."""
    records = records_of(path)[1:-2]  # without header, footer and trailer
    while records:
        kind, _, rows, tombstones = _KEY_RECORD.unpack_from(records[0])
        assert kind == b"K"
        keys = np.frombuffer(records[0], "<i8", rows, offset=_KEY_RECORD.size).tolist()
        num_values = 0 if tombstones else num_tables
        yield keys, records[1 : 1 + num_values]
        del records[: 1 + num_values]
