# SPDX-License-Identifier: Apache-2.0
"""A table group as Python sees it: one tracker a shard, and the ops on them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.ops.segments import segment_tensors

PARAMETER = "parameter"
# Streams of a restore. A stream from an object store brings some ten megabytes a second, so a
# machine's network takes tens of them.
READ_THREADS = 32

_handle_numbers = itertools.count()


@dataclasses.dataclass
class AttachedTable:
    """A hash table of a shard.

    Attributes:
        shard: where it belongs.
        table: the TFRA table.
        handle: the shard's tracker, as a tensor of this table's own: functions run ops on one
            resource tensor one after the other, and the tables of a group may be updated at once.
        name: its name in the group, "parameter" or that of the slot.
        index: its number in the shard.
        attach_op: what must run before the table is updated; None when executing eagerly.
    """

    shard: GroupShard
    table: Any
    handle: tf.Tensor
    name: str
    index: int
    attach_op: tf.Operation | None


class GroupShard:
    """The tables of a group on one device, and their tracker."""

    def __init__(self, group: TableGroup, shard: int, device: str, handle: tf.Tensor | None = None):
        self.group = group
        self.shard = shard
        self.device = device
        self.tables: list[AttachedTable] = []
        # Per table, rows that TFRA made up and the tracker does not know.
        self.strays: list[int] = []
        # Unique in the process, so that no two groups ever share a tracker.
        self._shared_name = f"adaptcp_group_{os.getpid()}_{next(_handle_numbers)}"
        self.handle = self._new_handle() if handle is None else handle

    def _new_handle(self) -> tf.Tensor:
        with tf.device(self.device):
            return ops.adaptcp_table_group(
                shared_name=self._shared_name,
                key_dtype=self.group.key_dtype,
                group_name=self.group.name,
                shard=self.shard,
                num_shards=self.group.num_shards,
            )

    def attach(self, table: Any, name: str) -> AttachedTable:
        """Adds `table` (dtype and dim of any kind that can be stored) to the shard.

        Raises:
            tf.errors.InvalidArgumentError: rows of its dtype cannot be checkpointed.
        """
        index = len(self.tables)
        # A graph runs its ops in any order, but tables are attached in that of their numbers.
        before = [self.tables[-1].attach_op] if index and self.tables[-1].attach_op else []
        with tf.control_dependencies(before), tf.device(self.device):
            attach_op = ops.adaptcp_attach_table(
                self.handle,
                table.resource_handle,
                table._default_value,
                table_index=index,
                table_name=name,
            )
        if tf.executing_eagerly():
            attach_op = None
        attached = AttachedTable(self, table, self._new_handle(), name, index, attach_op)
        self.tables.append(attached)
        return attached

    def adopt(self, keys: tf.Tensor) -> None:
        """Tracks rows (keys: [n]) that are in the tables already."""
        with tf.device(self.device):
            ops.adaptcp_adopt(self.handle, keys)

    def forget_rows(self) -> None:
        """Tells the tracker that the tables were emptied; the next checkpoint must be a base."""
        tables = [attached.table.resource_handle for attached in self.tables]
        with tf.device(self.device):
            ops.adaptcp_before_replace(self.handle)
            ops.adaptcp_after_replace(self.handle, tf.constant([], self.group.key_dtype), tables)

    def stats(self) -> dict[str, Any]:
        """Returns rows, table_rows, rows_to_save, tracker_bytes, interval, base_required, ..."""
        with tf.device(self.device):
            return json.loads(ops.adaptcp_group_stats(self.handle).numpy())

    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns rows and the sums of their update rates, [bins] float64 each, by rate."""
        with tf.device(self.device):
            rows, rate_sums = ops.adaptcp_rate_histogram(self.handle)
        return rows.numpy(), rate_sums.numpy()

    def copy_rows(self) -> None:
        """Copies the rows of the active cut into memory; `drain` then only writes."""
        with tf.device(self.device):
            ops.adaptcp_copy_rows(self.handle)

    def drain(self, directory: str, file_prefix: str, max_writers: int = 1) -> dict[str, Any]:
        """Saves the rest of the active cut; returns its segments and counts."""
        with tf.device(self.device):
            result = ops.adaptcp_drain(self.handle, directory, file_prefix, max_writers=max_writers)
        return json.loads(result.numpy())

    def end_cut(self, committed: bool) -> None:
        with tf.device(self.device):
            ops.adaptcp_end_cut(self.handle, committed)


class TableGroup:
    """A TFRA variable with its slot variables and restrict-policy state.

    Attributes:
        name: the variable's name; what segments and manifests call the group.
        key_dtype: tf.int64, tf.int32 or tf.string.
        num_shards: one for each of the variable's devices.
        partition: the variable's function from keys and the number of shards to shards.
        shards: the tracked shards, in the order of the devices.

    Args:
        name, key_dtype, partition: see above.
        devices: of the shards.
        clear: empties the tables of the group it is given, behind the trackers' back; None for a
            group that is made anew for each restore.
        handles: trackers that exist already, one a shard; None makes new ones.
    """

    def __init__(
        self,
        name: str,
        key_dtype: tf.DType,
        devices: Sequence[str],
        partition: Callable[[tf.Tensor, int], tf.Tensor],
        *,
        clear: Callable[[TableGroup], Any] | None = None,
        handles: Sequence[tf.Tensor] | None = None,
    ):
        self.name = name
        self.key_dtype = key_dtype
        self.num_shards = len(devices)
        self.partition = partition
        self._clear = clear
        self._manager: weakref.ref[Any] | None = None
        self.shards = [
            GroupShard(self, i, device, handles and handles[i]) for i, device in enumerate(devices)
        ]

    def clear(self) -> None:
        """Empties the tables behind the trackers' back, for a restore."""
        if self._clear is not None:
            self._clear(self)

    def release(self) -> None:
        """Lets go of trackers and tables, of which only the handles may keep the memory."""
        for shard in self.shards:
            shard.tables.clear()
            del shard.handle

    def shards_of(self, keys: tf.Tensor) -> np.ndarray:
        """Asks the variable's partition function for the shards ([n] int32) of keys ([n])."""
        if self.num_shards == 1:
            return np.zeros(len(keys), np.int32)
        return tf.cast(self.partition(keys, self.num_shards), tf.int32).numpy()

    def claim(self, manager: Any) -> None:
        """Notes who checkpoints the group; weakly, so that it can be dropped unclosed.

        Raises:
            InvalidOptionError: somebody else does.
        """
        other = None if self._manager is None else self._manager()
        if other not in (None, manager):
            raise errors.InvalidOptionError(
                f"TFRA variable {self.name!r} is already checkpointed to {other.directory!r}. Close "
                "that manager first."
            )
        self._manager = weakref.ref(manager)

    def disclaim(self) -> None:
        """Lets others checkpoint the group."""
        self._manager = None

    def restore(
        self,
        interval: int,
        segments: Sequence[Any],
        paths: Sequence[str],
        *,
        saved_shards: int,
        slots: bool,
        num_threads: int,
        read_threads: int = READ_THREADS,
    ) -> dict[str, Any]:
        """Loads segments into the group's empty tables, each row into the shard it belongs to now.

        Args:
            interval: of the checkpoint.
            segments: manifest records of the files: the differentials, the increments by falling
                interval, the bases.
            paths: where each of them is.
            saved_shards: how many shards there were at the time of the save.
            slots: whether slots are loaded, or parameters only.
            num_threads: threads that insert at once.
            read_threads: threads that read at once, a block each.

        Returns:
            rows, stale_rows, bytes_read, tables_without_rows.
        """
        with tf.device(self.shards[0].device):
            result = ops.adaptcp_restore(
                [shard.handle for shard in self.shards],
                tf.constant(interval, tf.int64),
                *segment_tensors(paths, segments),
                saved_shards=saved_shards,
                partition=self._partition_function(),
                slots=slots,
                num_threads=num_threads,
                read_threads=read_threads,
            )
        return json.loads(result.numpy())

    def _partition_function(self) -> list[Any]:
        """The function from keys to shards for the engine; none for a single shard."""
        if self.num_shards == 1:
            return []
        function = tf.function(
            lambda keys: tf.cast(self.partition(keys, self.num_shards), tf.int32)
        )
        return [function.get_concrete_function(tf.TensorSpec([None], self.key_dtype))]

    def tables_of(self, name: str) -> list[AttachedTable]:
        """Returns the tables called `name`, one a shard; empty when the group has none."""
        return [t for shard in self.shards for t in shard.tables if t.name == name]


def begin_cut(
    groups: Sequence[TableGroup],
    *,
    interval: int,
    base: bool,
    hot_threshold: float,
    hysteresis: float,
    rate_half_life_intervals: float,
    stop_and_copy: bool = False,
    encoding: str = "raw",
    slot_encoding: str = "raw",
) -> None:
    """Closes the interval of all groups at one instant.

    Args:
        groups: all groups of the checkpoint.
        interval: the interval to close; the open one of every group.
        base: whether every live row is saved.
        hot_threshold: updates per interval from which a row is hot; above 1 none is.
        hysteresis: relative width of the band in which a row keeps its class.
        rate_half_life_intervals: after how many intervals an update counts half in a row's rate.
        stop_and_copy: whether all rows are copied before this returns.
        encoding: how float values of parameters are stored; "raw" keeps every bit.
        slot_encoding: the same of slots.

    Raises:
        tf.errors.FailedPreconditionError: a cut is active, or only a base can be taken.
    """
    shards = [shard for group in groups for shard in group.shards]
    if not shards:
        return
    ops.adaptcp_begin(
        [shard.handle for shard in shards],
        interval,
        base,
        hot_threshold,
        hysteresis,
        rate_half_life_intervals,
        encoding=encoding,
        slot_encoding=slot_encoding,
    )
    if not stop_and_copy:
        return
    try:
        for shard in shards:
            shard.copy_rows()
    except BaseException:
        # An interrupt, above all: copying takes seconds. Nobody else knows of the cut yet.
        for shard in shards:
            shard.end_cut(committed=False)
        raise
