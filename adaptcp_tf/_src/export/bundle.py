# SPDX-License-Identifier: Apache-2.0
"""The tensor bundle of a SavedModel: what it names, and other rows and values in its place."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import translated

# Keys [n] and values [n, dim].
Blocks = Iterator[tuple[tf.Tensor, tf.Tensor]]

_KEYS, _VALUES = "-keys", "-values"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
# Where the tables of TFRA's variables are, whoever saved the model.
_TABLE = re.compile(r"(?:.*/)?tables_of_([^/]+)/(\d+)/\.ATTRIBUTES/table-keys")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclasses.dataclass(frozen=True)
class TableRows:
    """What a table of a SavedModel is to hold.

    Attributes:
        key: the name of its tensors, without "-keys" or "-values".
        rows: how many.
        blocks: yields that many rows.
    """

    key: str
    rows: int
    blocks: Blocks


class Bundle:
    """What the bundle of a SavedModel names.

    Args:
        directory: of the SavedModel.

    Raises:
        StorageError: it could not be read.
    """

    def __init__(self, directory: str):
        self.prefix = files.join(directory, "variables", "variables")
        with translated("read", self.prefix):
            reader = tf.train.load_checkpoint(self.prefix)
            self.dtypes: dict[str, tf.DType] = reader.get_variable_to_dtype_map()
            self.shapes: dict[str, list[int]] = reader.get_variable_to_shape_map()

    def tables(self) -> dict[str, list[str]]:
        """Returns TFRA variable -> the names of its tables' tensors, without "-keys", by shard."""
        found: dict[str, dict[int, str]] = {}
        for name in self.dtypes:
            match = _TABLE.fullmatch(name)
            if match:
                shards = found.setdefault(_unescaped(match.group(1)), {})
                shards[int(match.group(2))] = name.removesuffix(_KEYS)
        return {variable: [s[i] for i in sorted(s)] for variable, s in found.items()}

    def layout(self, table: str) -> tuple[tf.DType, tf.DType, int]:
        """Returns key dtype, value dtype and dim of a table, by the name of its tensors."""
        values = table + _VALUES
        return self.dtypes[table + _KEYS], self.dtypes[values], self.shapes[values][-1]

    def variables(self) -> list[str]:
        """Returns the names of the tensors of dense variables."""
        return [name for name in self.dtypes if name.endswith(_VALUE)]

    def find_variable(self, path: str) -> str | None:
        """Returns the name of the tensor of a dense variable.

        Args:
            path: names of attributes from the model's root to it.

        Returns:
            The name; None when the path leads nowhere.
        """
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            self.read([_OBJECT_GRAPH])[0].numpy()
        )

        def walk(node: int, rest: str) -> str | None:
            if not rest:
                keys = [attribute.checkpoint_key for attribute in graph.nodes[node].attributes]
                return next((key for key in keys if key.endswith(_VALUE)), None)
            for child in graph.nodes[node].children:
                # Names may have slashes.
                if f"{rest}/".startswith(f"{child.local_name}/"):
                    found = walk(child.node_id, rest[len(child.local_name) + 1 :])
                    if found is not None:
                        return found
            return None

        return walk(0, path)

    def read(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name."""
        if not names:
            return []
        with translated("read", self.prefix):
            return tf.raw_ops.RestoreV2(
                prefix=self.prefix,
                tensor_names=list(names),
                shape_and_slices=[""] * len(names),
                dtypes=[self.dtypes[name] for name in names],
            )


def write_bundle(
    directory: str,
    template: Bundle,
    keys: Iterable[str],
    tables: Iterable[TableRows],
    values: Mapping[str, tf.Tensor],
) -> int:
    """Writes the bundle of a SavedModel.

    In memory is what the tables' blocks take, string keys of a table, and what is neither a table nor
    given.

    Args:
        directory: of the SavedModel, local; what is in its folder of variables is replaced.
        template: names all tensors; those that are not given are taken from it. It may be the one
            that is replaced.
        keys: of all tables that `tables` will give.
        tables: their rows, made when they are asked for.
        values: tensors by name.

    Returns:
        How many bytes it has.

    Raises:
        StorageError: something could not be read or written.
    """
    target = files.join(directory, "variables")
    parts = files.join(target, "parts")
    files.make_dirs(parts)
    prefixes = (files.join(parts, str(i)) for i in itertools.count())
    replaced = {*values, *(key + kind for key in keys for kind in (_KEYS, _VALUES))}
    kept = sorted(set(template.dtypes) - replaced)
    whole = {**dict(zip(kept, template.read(kept))), **values}
    written = [_save(next(prefixes), {name: (tensor, "") for name, tensor in whole.items()})]
    for table in tables:
        written += _save_table(prefixes, template, table)
    for name in files.list_dir(target):
        if name != "parts":
            files.delete_file(files.join(target, name))
    with translated("write", target):
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=written,
            destination_prefix=files.join(target, "variables"),
            delete_old_dirs=True,
        )
    return sum(files.size(files.join(target, name)) for name in files.list_dir(target))


def _save_table(prefixes: Iterator[str], template: Bundle, table: TableRows) -> Iterator[str]:
    key_dtype, dtype, dim = template.layout(table.key)
    blocks = table.blocks
    if table.rows == 0:
        blocks = iter([(tf.zeros([0], key_dtype), tf.zeros([0, dim], dtype))])
    first = 0
    strings = []
    for keys, values in blocks:
        n = len(keys)
        # Of how many rows this is which part.
        part, values_part = "", ""
        if n < table.rows:
            part = f"{table.rows} {first},{n}"
            values_part = f"{table.rows} {dim} {first},{n}:-"
        named = {table.key + _VALUES: (values, values_part)}
        if key_dtype == tf.string:
            # TensorFlow does not read strings in parts.
            strings.append(keys)
        else:
            named[table.key + _KEYS] = (keys, part)
        yield _save(next(prefixes), named)
        first += n
    if strings:
        yield _save(next(prefixes), {table.key + _KEYS: (tf.concat(strings, axis=0), "")})


def _save(prefix: str, named: Mapping[str, tuple[tf.Tensor, str]]) -> str:
    """Writes tensors, or parts of tensors, to a bundle of their own."""
    with translated("write", prefix):
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=list(named),
            shape_and_slices=[part for _, part in named.values()],
            tensors=[tensor for tensor, _ in named.values()],
        )
    return prefix


def _unescaped(name: str) -> str:
    """A name of TensorFlow's trackables, before it was made part of a tensor's name."""
    return re.sub(r"\.(.)", lambda match: "/" if match.group(1) == "S" else match.group(1), name)
