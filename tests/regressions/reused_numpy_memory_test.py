# SPDX-License-Identifier: Apache-2.0
"""Rows went missing from checkpoints when a dataset's generator filled the same arrays each time.

TensorFlow takes NumPy arrays from generators and Python functions without copying them. Whoever keeps
such a tensor, or compares addresses to tell whether two are the same, sees later contents.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import tables

ROWS = 64
DIM = 4


def aligned(shape, dtype):
    """An array at an address from which TensorFlow takes it as it is."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def batches_in_the_same_arrays(number):
    """Yields tensors of a dataset whose generator fills its arrays again when they were used."""
    keys, values = aligned([ROWS], np.int64), aligned([ROWS, DIM], np.float32)
    signature = (tf.TensorSpec([ROWS], tf.int64), tf.TensorSpec([ROWS, DIM], tf.float32))
    for batch in range(number):
        keys[:] = np.arange(ROWS) + batch * ROWS // 2
        values[:] = batch + 1
        # A dataset a batch, since one dataset may run ahead and fill the arrays while they are used.
        dataset = tf.data.Dataset.from_generator(
            lambda: iter([(keys, values)]), output_signature=signature
        )
        yield from dataset
    keys[:] = -1
    values[:] = -1


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("shards", [1, 2])
def test_rows_of_reused_arrays_are_saved(tmp_path, shards, in_function):
    variable = tables.make_variable(dim=DIM, shards=shards)
    manager = tables.manage(tmp_path, variable, strategy="incremental")
    # So that no row is new, which would be noticed.
    everything = np.arange(-1, 10 * ROWS)
    variable.upsert(tf.constant(everything), tf.zeros([len(everything), DIM]))
    manager.save(1)

    def upsert(keys, values):
        variable.upsert(keys, values)

    if in_function:
        upsert = tf.function(upsert)
    for keys, values in batches_in_the_same_arrays(6):
        upsert(keys, values)
    expected = tables.rows_of(variable)
    manager.save(2)
    manager.wait()
    assert manager.reports[-1].rows_cold == 7 * ROWS // 2
    manager.restore(2)
    assert tables.rows_of(variable) == expected


def test_arrays_that_change_after_a_traced_update(tmp_path):
    variable = tables.make_variable(dim=DIM)
    manager = tables.manage(tmp_path, variable)
    keys, values = aligned([ROWS], np.int64), aligned([ROWS, DIM], np.float32)
    keys[:], values[:] = np.arange(ROWS), 1

    @tf.function
    def update():
        some_keys = tf.ensure_shape(tf.numpy_function(lambda: keys, [], tf.int64), [ROWS])
        rows = tf.ensure_shape(tf.numpy_function(lambda: values, [], tf.float32), [ROWS, DIM])
        variable.upsert(some_keys, rows)

    update()
    expected = tables.rows_of(variable)
    keys[:], values[:] = -1, -1
    manager.save(1)
    manager.restore(1)
    assert tables.rows_of(variable) == expected
