# SPDX-License-Identifier: Apache-2.0
"""What TFRA's own loader makes of files, in a process that never imports adaptcp_tf."""

import hashlib
import json

from tests.support import processes

_LOAD = """
import hashlib, json, sys
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de
def load(spec, shards):
    variable = de.Variable(
        name=spec["name"],
        key_dtype=tf.as_dtype(spec["key_dtype"]),
        value_dtype=tf.as_dtype(spec["dtype"]),
        dim=spec["dim"],
        devices=["/CPU:0"] * shards,
    )
    if shards == spec["shards"]:
        variable.load_from_file_system(spec["out"])
    else:
        variable.load_from_file_system_with_restore_function(spec["out"])
    keys, rows = variable.export()
    found = variable.lookup(keys)
    pairs = sorted((key, row.tobytes()) for key, row in zip(keys.numpy().tolist(), found.numpy()))
    digest = hashlib.sha256()
    for key, row in pairs:
        digest.update(str(key).encode() + row)
    return digest.hexdigest()

digests = [
    [load(spec, shards) for shards in [spec["shards"], *spec["others"]]]
    for spec in json.loads(sys.argv[1])
]
assert not any(name.startswith("adaptcp") for name in sys.modules)
print(json.dumps(digests))
"""


def load(saved, *, others=()):
    """Loads files with TFRA's loader in a process of its own.

    Args:
        saved: pairs of a directory and a TFRA variable; what is loaded from the directory is a
            variable of the same name and kind.
        others: numbers of devices on which to load it too.

    Returns:
        A digest of the rows of each, as `digest` makes it.
    """
    specs = [
        {
            "out": str(out),
            "name": variable.name,
            "key_dtype": variable.key_dtype.name,
            "dtype": variable.value_dtype.name,
            "dim": variable.dim,
            "shards": variable.shard_num,
            "others": others,
        }
        for out, variable in saved
    ]
    output = processes.run(_LOAD, json.dumps(specs)).stdout
    digests = json.loads(output.splitlines()[-1])
    assert all(len(set(of_variable)) == 1 for of_variable in digests), digests
    return [of_variable[0] for of_variable in digests]


def digest(rows):
    """A digest of rows as a dict from key to bytes."""
    digest = hashlib.sha256()
    for key, row in sorted(rows.items()):
        digest.update(str(key).encode() + row)
    return digest.hexdigest()
