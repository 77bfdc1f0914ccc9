# SPDX-License-Identifier: Apache-2.0
"""What processes of each pair do: `python -m tests.pairs.programs NAME ARGUMENTS_AS_JSON`.

The last line that they print is JSON: what the model or the table held in the end.
"""

import hashlib
import json
import sys

import tensorflow as tf

import adaptcp_tf as acp
from tests.support import models, tables

BATCHES = 12


def train(directory, kind, optimizer, **options):
    """Continues from the newest checkpoint, if there is one, and saves every few batches."""
    model = models.build(kind, optimizer)
    manager = _manager(directory, model, **options)
    done = manager.latest_step() or 0
    if done:
        manager.restore()
    for step, batch in enumerate(models.dataset(BATCHES, seed=done), start=done + 1):
        models.train(model, [batch])
        if step % 4 == 0:
            manager.save(step)
    manager.wait()
    manager.close()
    return _state(model)


def restore(directory, kind, optimizer):
    """Restores the newest checkpoint into a new model."""
    model = models.build(kind, optimizer)
    manager = _manager(directory, model)
    manager.restore()
    manager.close()
    return _state(model)


def fill(directory, key_dtype, value_dtype, rows):
    """Saves a table of random rows."""
    variable = _variable(key_dtype, value_dtype)
    manager = tables.manage(directory, variable)
    tables.fill(variable, range(rows))
    manager.save(1)
    manager.wait()
    manager.close()
    return _digest(variable)


def load(directory, key_dtype, value_dtype):
    """Restores such a table."""
    variable = _variable(key_dtype, value_dtype)
    manager = tables.manage(directory, variable)
    manager.restore()
    manager.close()
    return _digest(variable)


def _manager(directory, model, **options):
    options = acp.CheckpointOptions(when_busy="wait", **options)
    return acp.CheckpointManager(directory, model=model, options=options)


def _state(model):
    # A model that was restored and not called yet has made no metrics.
    parts = {k: v for k, v in models.parts(model).items() if not k.startswith("metric")}
    return {**parts, "tensorflow": tf.__version__}


def _variable(key_dtype, value_dtype):
    return tables.make_variable(keys=tf.as_dtype(key_dtype), values=tf.as_dtype(value_dtype))


def _digest(variable):
    digest = hashlib.sha256()
    rows = tables.rows_of(variable)
    for key in sorted(rows):
        digest.update(str(key).encode() + rows[key])
    return {"rows": len(rows), "digest": digest.hexdigest(), "tensorflow": tf.__version__}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
