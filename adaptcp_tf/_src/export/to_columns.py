# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint as npz or Parquet files, for whoever analyses rows without TFRA."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.export.progress import Progress, Watch, nobody_watches
from adaptcp_tf._src.export.reading import blocks_of, open_checkpoint, restored
from adaptcp_tf._src.export.report import RowsExport
from adaptcp_tf._src.export.staging import check_new
from adaptcp_tf._src.export.writers import new_writer
from adaptcp_tf._src.manifest import CheckpointStore, Manifest, identity
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.trees import new_tree
from adaptcp_tf._src.tables.group import PARAMETER
from adaptcp_tf._src.tables.tfra_listing import LISTING_NAME
from adaptcp_tf._src.tables.tfra_names import variable_name

_VERSION = 1


def npz_files(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    step: int | None = None,
    *,
    num_threads: int = 2,
    watch: Watch = nobody_watches,
) -> RowsExport:
    """Writes the rows and slots of a checkpoint as NumPy's npz files.

    Needs neither the model nor its code. `adaptcp-export.json` lists the tables and their files. Each
    file has the arrays `keys`, [n], and `values`, [n, dim]; bfloat16 is written as float32. Of string
    keys, key i is the bytes `keys[key_offsets[i] : key_offsets[i + 1]]`. Dense variables are not
    exported.

    The shards are restored one after the other into TFRA tables. That takes the memory of the largest
    shard, parameter and slots, and a copy of one of its tables.

    Example:
        >>> acp.export.npz_files("/data/run1", "/data/rows")

    Args:
        directory: of the checkpoints.
        out: directory to make; it must not exist, or be empty.
        step: which checkpoint; None takes the newest.
        num_threads: threads that read and insert.
        watch: called now and then with the bytes of the checkpoint that are done, and all of them.

    Returns:
        What was exported.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of it is missing or damaged.
        InvalidOptionError: `out` is not empty, or there are no tables.
        StorageError: a file could not be read or written.
    """
    return _export("npz", directory, out, step, num_threads, watch)


def parquet_files(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    step: int | None = None,
    *,
    num_threads: int = 2,
    watch: Watch = nobody_watches,
) -> RowsExport:
    """Writes the rows and slots of a checkpoint as Parquet files. Needs the package pyarrow.

    As `npz_files`, but with one file for each table and shard, whose columns are `key` and `values`, a
    list of `dim` numbers.

    Example:
        >>> acp.export.parquet_files("/data/run1", "/data/rows", step=1200)

    Args:
        directory: of the checkpoints.
        out: directory to make; it must not exist, or be empty.
        step: which checkpoint; None takes the newest.
        num_threads: threads that read and insert.
        watch: called now and then with the bytes of the checkpoint that are done, and all of them.

    Returns:
        What was exported.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of it is missing or damaged.
        InvalidOptionError: `out` is not empty, there are no tables, or pyarrow is not installed.
        StorageError: a file could not be read or written.
    """
    return _export("parquet", directory, out, step, num_threads, watch)


def _export(
    row_format: str,
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    step: int | None,
    num_threads: int,
    watch: Watch,
) -> RowsExport:
    start = time.perf_counter()
    store, manifest = open_checkpoint(directory, step)
    out = files.normalize(out)
    check_new(out, "files of two exports must not mix")
    if not manifest.groups:
        raise errors.InvalidOptionError(
            f"The checkpoint of step {manifest.step} has no TFRA variables: nothing to export."
        )
    with new_tree(out, last=LISTING_NAME) as tree:
        tables = list(_tables(row_format, store, manifest, tree, num_threads, watch))
        listing = {
            "format": row_format,
            "format_version": _VERSION,
            "step": manifest.step,
            "checkpoint": identity(manifest),
            "exact": manifest.exact,
            "tables": tables,
        }
        content = (json.dumps(listing, indent=1, sort_keys=True) + "\n").encode()
        files.write_durably(files.join(tree, LISTING_NAME), content)
    written = [file for table in tables for file in table["files"]]
    parameters = [table for table in tables if table["table"] == PARAMETER]
    return RowsExport(
        step=manifest.step,
        checkpoint=identity(manifest),
        directory=out,
        rows=sum(table["rows"] for table in parameters),
        bytes=sum(file["bytes"] for file in written) + len(content),
        files=len(written) + 1,
        exact=manifest.exact,
        seconds=time.perf_counter() - start,
    )


def _tables(
    row_format: str,
    store: CheckpointStore,
    manifest: Manifest,
    tree: str,
    num_threads: int,
    watch: Watch,
) -> Iterator[dict[str, Any]]:
    """Writes every table, and yields what the listing says of it."""
    progress = Progress(manifest.segments, watch)
    for number, group in enumerate(manifest.groups):
        for shard in range(group.num_shards):
            with restored(
                store, manifest, group, shard=shard, num_threads=num_threads, progress=progress
            ) as found:
                for table, attached in zip(group.tables, found.shards[0].tables):
                    stem = f"g{number}-t{attached.index}-s{shard}of{group.num_shards}"
                    writer = new_writer(row_format, tree, stem)
                    for keys, values in progress.counted(blocks_of(attached)):
                        writer.write(keys, values)
                    written = writer.close()
                    yield {
                        "variable": variable_name(group.name, table.name),
                        "group": group.name,
                        "table": table.name,
                        "shard": shard,
                        "num_shards": group.num_shards,
                        "key_dtype": group.key_dtype,
                        "dtype": table.dtype,
                        "dim": table.dim,
                        "rows": sum(file.rows for file in written),
                        "files": [dataclasses.asdict(file) for file in written],
                    }
