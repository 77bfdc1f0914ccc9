# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint as TFRA's own files, by restoring each shard into TFRA tables that TFRA saves."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.export.progress import Progress, Watch, nobody_watches
from adaptcp_tf._src.export.reading import open_checkpoint, restored
from adaptcp_tf._src.export.report import RowsExport
from adaptcp_tf._src.export.staging import check_new, publish, staged
from adaptcp_tf._src.manifest import CheckpointStore, GroupSpec, Manifest, identity
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.tables.group import AttachedTable
from adaptcp_tf._src.tables.tfra_listing import LISTING_NAME, ListedTable, encode_listing
from adaptcp_tf._src.tables.tfra_names import file_prefix, file_stem, variable_name

# TFRA's own default. Each buffer costs it a walk over the table from its beginning, so that small
# buffers are slow.
_MAX_BUFFER_ROWS = 4194304


class TfraExport(RowsExport):
    """What was exported as TFRA's files."""


def tfra_files(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    step: int | None = None,
    *,
    num_threads: int = 2,
    watch: Watch = nobody_watches,
) -> TfraExport:
    """Writes the rows and slots of a checkpoint as the `-keys` and `-values` files of TFRA.

    Needs neither the model nor its code. TFRA's `Variable.load_from_file_system(out)` reads them,
    for a variable of the same name on as many devices, and likewise for each slot variable;
    `load_from_file_system_with_restore_function` does for another number of devices. Dense variables
    are not exported.

    The shards are restored one after the other into TFRA tables, which TFRA saves. That takes the
    memory of the largest shard, parameter and slots, and TFRA's buffer of up to 4 million rows.

    When `out` is not local, TFRA writes each table into the directory for temporary files first.
    On a local disk `out` appears with all its files at one instant. Elsewhere files appear one after
    the other, each of them whole, and `adaptcp-export.json` as the last one.

    Example:
        >>> acp.export.tfra_files("/data/run1", "/data/for_tfra")

    Args:
        directory: of the checkpoints.
        out: directory to make; it must not exist, or be empty.
        step: which checkpoint; None takes the newest.
        num_threads: threads that insert at once.
        watch: called now and then with the bytes of the checkpoint that are done, and all of them.

    Returns:
        What was exported.

    Raises:
        CheckpointNotFoundError: there is no such checkpoint.
        CorruptCheckpointError: a file of it is missing or damaged.
        InvalidOptionError: `out` is not empty; the keys are strings, which TFRA cannot read back; two
            tables would have the same file; or there are no tables.
        StorageError: a file could not be read or written.
    """
    start = time.perf_counter()
    store, manifest = open_checkpoint(directory, step)
    out = files.normalize(out)
    _check(manifest, out)
    with staged(out) as staging:
        tables = []
        progress = Progress(manifest.segments, watch)
        for spec in manifest.groups:
            rows = [
                _write_shard(store, manifest, spec, shard, staging, num_threads, progress)
                for shard in range(spec.num_shards)
            ]
            tables += [_listed(spec, t, tuple(r[t] for r in rows)) for t in range(len(spec.tables))]
        listing = encode_listing(manifest.step, manifest.exact, tables)
        files.write_durably(files.join(staging, LISTING_NAME), listing)
        sizes = [files.size(files.join(staging, name)) for name in files.list_dir(staging)]
        publish(staging, out, last=LISTING_NAME)
    parameters = {spec.name for spec in manifest.groups}
    return TfraExport(
        step=manifest.step,
        checkpoint=identity(manifest),
        directory=out,
        rows=sum(sum(table.rows) for table in tables if table.variable in parameters),
        bytes=sum(sizes),
        files=len(sizes),
        exact=manifest.exact,
        seconds=time.perf_counter() - start,
    )


def _listed(spec: GroupSpec, index: int, rows: tuple[int, ...]) -> ListedTable:
    table = spec.tables[index]
    name = variable_name(spec.name, table.name)
    return ListedTable(name, spec.key_dtype, table.dtype, table.dim, rows)


def _check(manifest: Manifest, out: str) -> None:
    if not manifest.groups:
        raise errors.InvalidOptionError(
            f"The checkpoint of step {manifest.step} has no TFRA variables: nothing to export."
        )
    check_tfra_can_read(
        (variable_name(spec.name, table.name), spec.key_dtype)
        for spec in manifest.groups
        for table in spec.tables
    )
    check_new(out, "TFRA may load whatever files lie beside those of a table")


def check_tfra_can_read(variables: Iterable[tuple[str, str]]) -> None:
    """Raises unless TFRA can read files of its kind of all variables.

    Args:
        variables: name and key dtype of each.

    Raises:
        InvalidOptionError: keys are strings, or two variables would have the same file.
    """
    seen: dict[str, str] = {}
    for name, key_dtype in variables:
        if key_dtype == tf.string.name:
            raise errors.InvalidOptionError(
                f"TFRA variable {name!r} cannot be exported to TFRA's files. Received: string keys, "
                "which TFRA writes as raw structs and cannot read back. Expected: int64 or int32 "
                "keys. Choose another format."
            )
        other = seen.setdefault(file_prefix(name), name)
        if other != name:
            raise errors.InvalidOptionError(
                f"TFRA gives the variables {other!r} and {name!r} the same files, "
                f"{file_prefix(name)}*. Expected: names that differ in more than slashes."
            )


def _write_shard(
    store: CheckpointStore,
    manifest: Manifest,
    spec: GroupSpec,
    number: int,
    staging: str,
    num_threads: int,
    progress: Progress,
) -> list[int]:
    """Writes the files of one shard; returns the rows of each table."""
    with restored(
        store, manifest, spec, shard=number, num_threads=num_threads, progress=progress
    ) as group:
        rows = []
        for attached in group.shards[0].tables:
            stem = file_stem(variable_name(spec.name, attached.name), number, spec.num_shards)
            rows.append(_write_table(attached, staging, stem))
            progress.wrote(rows[-1])
        return rows


def _write_table(attached: AttachedTable, staging: str, stem: str) -> int:
    table = attached.table
    rows = int(table.size())
    # TFRA does not close the files it writes. A store where files appear when they are closed would
    # have none of them, and nobody would be told.
    with files.written_elsewhere(staging) as local, translated("write TFRA's files to", local):
        table.save_to_file_system(
            local,
            file_name=stem,
            # Else a variable of the environment would say where to.
            dirpath_env="",
            buffer_size=max(1, min(rows, _MAX_BUFFER_ROWS)),
        )
    row_bytes = table._value_dtype.size * int(table._default_value.shape[0])
    for kind, size in (("keys", table._key_dtype.size), ("values", row_bytes)):
        path = files.join(staging, f"{stem}-{kind}")
        if files.size(path) != rows * size:
            raise errors.StorageError(
                f"{path!r} was not written whole. Received: {files.size(path)} bytes. Expected: "
                f"{rows * size}. Check the store, then export again.",
                path=path,
            )
        files.sync_file(path)
    return rows
