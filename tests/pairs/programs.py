# SPDX-License-Identifier: Apache-2.0
"""What processes of each pair do: `python -m tests.pairs.programs NAME ARGUMENTS_AS_JSON`.

The last line that they print is JSON: what the model or the table held in the end.
"""

import hashlib
import json
import sys

import tensorflow as tf

import adaptcp_tf as acp
from tests.support import models, sessions, tables

BATCHES = 12
ROWS = 200


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


def train_session(directory, begin, end):
    """Trains a TF1 graph from one global step, that of the newest checkpoint, to another."""
    hook = sessions.make_hook(directory)
    contents = sessions.Training().run(hook, end)
    assert (hook.restored.step if hook.restored else 0) == begin
    found = {"tensorflow": tf.__version__}
    for name, rows in contents.items():
        rows = rows.items() if isinstance(rows, dict) else [(name, rows)]
        found[name] = _digest(rows)
    return found


def fill(directory):
    """Saves tables of random rows."""
    variables = _variables()
    manager = tables.manage(directory, *variables)
    for variable in variables:
        tables.fill(variable, range(ROWS))
    manager.save(1)
    manager.wait()
    manager.close()
    return _rows(variables)


def load(directory):
    """Restores such tables."""
    variables = _variables()
    manager = tables.manage(directory, *variables)
    manager.restore()
    manager.close()
    return _rows(variables)


def _manager(directory, model, **options):
    options = acp.CheckpointOptions(when_busy="wait", **options)
    return acp.CheckpointManager(directory, model=model, options=options)


def _state(model):
    # A model that was restored and not called yet has made no metrics.
    parts = {k: v for k, v in models.parts(model).items() if not k.startswith("metric")}
    return {**parts, "tensorflow": tf.__version__}


def _variables():
    return [
        tables.make_variable(f"{keys.name}_{values.name}", keys, values)
        for keys, values in tables.DTYPES
    ]


def _rows(variables):
    """A digest of the rows of each variable."""
    found = {"tensorflow": tf.__version__}
    for variable in variables:
        rows = tables.rows_of(variable)
        assert len(rows) == ROWS
        found[variable.name] = _digest(rows.items())
    return found


def _digest(rows):
    """Of keys and bytes, in any order."""
    digest = hashlib.sha256()
    for key, row in sorted(rows):
        digest.update(str(key).encode() + row)
    return digest.hexdigest()


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
