# SPDX-License-Identifier: Apache-2.0
"""Runs whose checkpoints differ in every way that a delta must tell, and variables that serve."""

import numpy as np
import tensorflow as tf

from tests.support import tables

FORMATS = ("npz", "parquet", "tfra")


def change(variable, step):
    """Updates some rows, adds and removes some."""
    tables.fill(variable, range(0, 90, 3), seed=step)
    tables.fill(variable, range(step * 20, step * 20 + 40), seed=10 + step)
    tables.remove(variable, range(step, 150, 17))
    # Removed and back again.
    tables.remove(variable, range(0, 30, 10))
    tables.fill(variable, range(0, 30, 20), seed=step)


def manage(directory, *variables, **options):
    """A manager that has hot and cold rows."""
    return tables.manage(directory, *variables, **{"hot_threshold": 0.6, **options})


def run(directory, *variables, steps=4, **options):
    """Makes checkpoints; returns what each variable held at each."""
    manager = manage(directory, *variables, **options)
    states = {}
    for step in range(1, steps + 1):
        for variable in variables:
            change(variable, step)
        manager.save(step)
        manager.wait()
        states[step] = [tables.rows_of(variable) for variable in variables]
    manager.close()
    return states


def fresh(variable, shards=1):
    """A variable of the same name and kind that nobody checkpoints."""
    keys, values = variable.key_dtype, variable.value_dtype
    return tables.make_variable(variable.name, keys, values, variable.dim, shards)


def load_full(variable, rows):
    """Fills a variable with rows as a dict."""
    variable.upsert(
        tf.constant(list(rows), variable.key_dtype),
        tf.constant(
            np.frombuffer(b"".join(rows.values()), variable.value_dtype.as_numpy_dtype).reshape(
                len(rows), -1
            )
        ),
    )
