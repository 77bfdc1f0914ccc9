# SPDX-License-Identifier: Apache-2.0
"""Directories of checkpoints to look at, of two variables and a dense one."""

import contextlib

import tensorflow as tf

import adaptcp_tf as acp
from tests.support import tables

ROWS = 60


class Dense(tf.Module):
    """Two dense variables."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.reshape(tf.range(300.0), [100, 3]), name="weights")
        self.counter = tf.Variable(7, dtype=tf.int64, name="counter")


@contextlib.contextmanager
def training(directory, **options):
    """Yields (manager, users, items): variables of two shards and one, with ROWS rows each."""
    users = tables.make_variable("users", shards=2)
    items = tables.make_variable("items", dim=2)
    defaults = {"strategy": "incremental", "when_busy": "wait", "max_to_keep": None}
    manager = acp.CheckpointManager(
        str(directory),
        model=Dense(),
        variables=[users, items],
        options=acp.CheckpointOptions(**{**defaults, **options}),
    )
    for variable in (users, items):
        tables.fill(variable, range(ROWS))
    yield manager, users, items
    manager.close()


def save(manager, step):
    """Durable on return."""
    manager.save(step)
    manager.wait()


def chain(directory, **options):
    """Saves steps 10, 20 and 30.

    Step 20 has 5 changed, 10 new and 4 fewer users than 10, step 30 one item more than 20.
    """
    with training(directory, **options) as (manager, users, items):
        save(manager, 10)
        tables.fill(users, range(5), seed=1)
        tables.fill(users, range(ROWS, ROWS + 10))
        tables.remove(users, range(20, 24))
        save(manager, 20)
        tables.fill(items, [ROWS])
        save(manager, 30)
        return tables.rows_of(users), tables.rows_of(items)
