# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint as TFRA's own files, by restoring each shard into TFRA tables that TFRA saves."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.restoring import restore_errors
from adaptcp_tf._src.manifest import CheckpointStore, GroupSpec, Manifest, restore_order
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.storage.local_files import temporary_name
from adaptcp_tf._src.tables import TableGroup
from adaptcp_tf._src.tables.group import AttachedTable
from adaptcp_tf._src.tables.tfra import new_table
from adaptcp_tf._src.tables.tfra_listing import LISTING_NAME, ListedTable, encode_listing
from adaptcp_tf._src.tables.tfra_names import file_prefix, file_stem, variable_name

# TFRA's own default. Each buffer costs it a walk over the table from its beginning, so that small
# buffers are slow.
_MAX_BUFFER_ROWS = 4194304


@dataclasses.dataclass(frozen=True)
class TfraExport:
    """What was exported.

    Attributes:
        step: of the checkpoint.
        directory: where the files are.
        rows: of all TFRA variables, slots not counted.
        bytes: of all files.
        files: how many.
        exact: whether they hold every bit of what was trained, or the checkpoint was quantised.
        seconds: how long it took.
    """

    step: int
    directory: str
    rows: int
    bytes: int
    files: int
    exact: bool
    seconds: float


def tfra_files(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str],
    step: int | None = None,
    *,
    num_threads: int = 2,
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
    store = CheckpointStore(os.fspath(directory))
    manifest = store.read(_newest(store) if step is None else step)
    out = files.normalize(out)
    _check(manifest, out)
    store.validate(manifest)
    with _staged(out) as staging:
        tables = []
        for spec in manifest.groups:
            rows = [
                _write_shard(store, manifest, spec, shard, staging, num_threads)
                for shard in range(spec.num_shards)
            ]
            tables += [_listed(spec, t, tuple(r[t] for r in rows)) for t in range(len(spec.tables))]
        listing = encode_listing(manifest.step, manifest.exact, tables)
        files.write_durably(files.join(staging, LISTING_NAME), listing)
        sizes = [files.size(files.join(staging, name)) for name in files.list_dir(staging)]
        _publish(staging, out)
    parameters = {spec.name for spec in manifest.groups}
    return TfraExport(
        step=manifest.step,
        directory=out,
        rows=sum(sum(table.rows) for table in tables if table.variable in parameters),
        bytes=sum(sizes),
        files=len(sizes),
        exact=manifest.exact,
        seconds=time.perf_counter() - start,
    )


def _newest(store: CheckpointStore) -> int:
    step = store.latest_step()
    if step is None:
        raise errors.CheckpointNotFoundError(f"There is no checkpoint in {store.directory!r}.")
    return step


def _listed(spec: GroupSpec, index: int, rows: tuple[int, ...]) -> ListedTable:
    table = spec.tables[index]
    name = variable_name(spec.name, table.name)
    return ListedTable(name, spec.key_dtype, table.dtype, table.dim, rows)


def _check(manifest: Manifest, out: str) -> None:
    if not manifest.groups:
        raise errors.InvalidOptionError(
            f"The checkpoint of step {manifest.step} has no TFRA variables: nothing to export."
        )
    seen: dict[str, str] = {}
    for spec in manifest.groups:
        if spec.key_dtype == tf.string.name:
            raise errors.InvalidOptionError(
                f"TFRA variable {spec.name!r} cannot be exported to TFRA's files. Received: string "
                "keys, which TFRA writes as raw structs and cannot read back. Expected: int64 or int32 keys."
            )
        for table in spec.tables:
            name = variable_name(spec.name, table.name)
            other = seen.setdefault(file_prefix(name), name)
            if other != name:
                raise errors.InvalidOptionError(
                    f"TFRA gives the variables {other!r} and {name!r} the same files, "
                    f"{file_prefix(name)}*. Expected: names that differ in more than slashes."
                )
    if files.exists(out) and files.list_dir(out):
        raise errors.InvalidOptionError(
            f"Invalid value for out. Received: {out!r}, which is not empty. Expected: a new "
            "directory, since TFRA may load whatever files lie beside those of a table."
        )


@contextlib.contextmanager
def _staged(out: str) -> Iterator[str]:
    """A directory beside `out` to write into; it is gone in the end, whatever happens."""
    staging = temporary_name(out)
    try:
        files.make_dirs(staging)
        yield staging
    finally:
        with contextlib.suppress(errors.StorageError):
            if files.exists(staging):
                _delete(staging, files.list_dir(staging))
                files.delete_dir_if_empty(staging)


def _publish(staging: str, out: str) -> None:
    names = files.list_dir(staging)
    try:
        files.move_dir(staging, out, last=LISTING_NAME)
    except BaseException:
        with contextlib.suppress(errors.StorageError):
            _delete(out, sorted(set(names) - set(files.list_dir(staging))))
            files.delete_dir_if_empty(out)
        raise


def _delete(directory: str, names: Sequence[str]) -> None:
    for name in names:
        files.delete_file(files.join(directory, name))


def _write_shard(
    store: CheckpointStore,
    manifest: Manifest,
    spec: GroupSpec,
    number: int,
    staging: str,
    num_threads: int,
) -> list[int]:
    """Writes the files of one shard; returns the rows of each table."""
    segments = [s for s in restore_order(manifest).get(spec.name, []) if s.shard == number]
    with _scratch_group(spec) as group:
        with restore_errors(store.directory, manifest):
            group.restore(
                manifest.interval,
                segments,
                [store.path(segment.path) for segment in segments],
                saved_shards=spec.num_shards,
                slots=True,
                num_threads=num_threads,
            )
        rows = []
        for attached in group.shards[0].tables:
            stem = file_stem(variable_name(spec.name, attached.name), number, spec.num_shards)
            rows.append(_write_table(attached, staging, stem))
        return rows


@contextlib.contextmanager
def _scratch_group(spec: GroupSpec) -> Iterator[TableGroup]:
    """Tables for one shard, which belong to no variable and are freed in the end."""
    key_dtype = tf.as_dtype(spec.key_dtype)
    group = TableGroup(spec.name, key_dtype, ["/CPU:0"], lambda keys, _: tf.zeros_like(keys))
    (shard,) = group.shards
    try:
        for table in spec.tables:
            shard.attach(new_table(key_dtype, tf.as_dtype(table.dtype), table.dim), table.name)
        yield group
    finally:
        # The tracker refers to the tables, so it goes first.
        for handle in (shard.handle, *(t.table.resource_handle for t in shard.tables)):
            tf.raw_ops.DestroyResourceOp(resource=handle)


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
