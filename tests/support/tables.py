# SPDX-License-Identifier: Apache-2.0
"""TFRA variables for tests, distinct random rows for them, and what they hold as plain dicts."""

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

import adaptcp_tf as acp

# What TFRA's CPU tables accept, without what cannot be checkpointed (string values).
NUMBERS = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int32, tf.int64)
DTYPES = [
    *((tf.int64, values) for values in NUMBERS),
    *((tf.int32, values) for values in (tf.float32, tf.float64, tf.bfloat16, tf.int32)),
    *((tf.string, values) for values in (*NUMBERS, tf.bool)),
]
# TFRA serves rows of up to 100 values with one class of table, longer ones with another.
DIMS = (1, 2, 99, 100, 101, 200)


def start_over():
    """Forgets every name TensorFlow and TFRA gave out, as a new process has."""
    tf.keras.backend.clear_session()


def make_variable(name="emb", keys=tf.int64, values=tf.float32, dim=4, shards=1, **arguments):
    """A TFRA variable of its own, whatever others of that name there are."""
    start_over()
    devices = ["/CPU:0"] * shards
    return de.get_variable(
        name, key_dtype=keys, value_dtype=values, dim=dim, devices=devices, **arguments
    )


def manage(directory, *variables, **options):
    """A manager of TFRA variables that saves each time it is asked to."""
    options = acp.CheckpointOptions(**{"when_busy": "wait", "max_to_keep": None, **options})
    return acp.CheckpointManager(str(directory), variables=variables, options=options)


def make_keys(dtype, numbers):
    """Distinct keys of any dtype for distinct numbers, spread over the dtype's range."""
    numbers = np.asarray(numbers, np.int64)
    if dtype == tf.string:
        # Lengths differ, and no byte is special.
        return tf.constant([b"\0\xff" + b"k" * (n % 40) + str(n).encode() for n in numbers])
    if dtype == tf.int32:
        return tf.constant(((numbers * 40507) % 2**32).astype(np.uint32).view(np.int32))
    return tf.constant((numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))


def make_rows(dtype, dim, numbers, seed=0):
    """Random rows [n, dim], each a function of dtype, dim, its number and the seed."""
    places = np.asarray(numbers, np.uint64)[:, None] * np.uint64(dim) + np.arange(
        dim, dtype=np.uint64
    )
    bits = _mixed(places + np.uint64(seed << 40))
    if dtype == tf.bool:
        return tf.constant((bits & np.uint64(1)).astype(bool))
    if dtype.is_integer:
        return tf.constant(bits.view(np.int64).astype(dtype.as_numpy_dtype))
    # Uniform from -1 to 1, with more digits than any dtype keeps.
    return tf.constant((bits.view(np.int64) / 2.0**63).astype(dtype.as_numpy_dtype))


def _mixed(bits):
    """The finalizer of splitmix64: neighbours become unrelated."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def fill(variable, numbers, seed=0):
    """Inserts distinct rows; returns them as `rows_of` does."""
    keys = make_keys(variable.key_dtype, numbers)
    rows = make_rows(variable.value_dtype, variable.dim, numbers, seed)
    variable.upsert(keys, rows)
    return as_dict(keys, rows)


def remove(variable, numbers):
    """Removes rows that `fill` inserted."""
    variable.remove(make_keys(variable.key_dtype, numbers))


def as_dict(keys, rows):
    """Maps each key to the bytes of its row, so that equal means equal bit for bit."""
    return {key: row.tobytes() for key, row in zip(keys.numpy().tolist(), rows.numpy())}


def rows_of(variable):
    """Every row of a variable, all shards together."""
    keys, rows = variable.export()
    found = as_dict(keys, rows)
    assert len(found) == len(keys), "a key is in the tables twice"
    return found


def group_of(variable):
    """The table group of a variable that is tracked."""
    return variable._adaptcp_group


def stats_of(variable):
    """The trackers' counts, one dict a shard."""
    return [shard.stats() for shard in group_of(variable).shards]


def saved_and_restored(directory, variable, fresh, **options):
    """Saves one variable and restores it into another of the same name; returns its rows.

    The options are those of the manager that saves.
    """
    manager = manage(directory, variable, **options)
    manager.save(1)
    manager.wait()
    manager.close()
    other = manage(directory, fresh)
    other.restore()
    other.close()
    return rows_of(fresh)
