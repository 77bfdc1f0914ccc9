# SPDX-License-Identifier: Apache-2.0
"""The background half of a checkpoint: drain, dense bundle, manifest, retention."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.metadata
import logging
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.beside import beside
from adaptcp_tf._src.checkpoint.cutting import Cut
from adaptcp_tf._src.checkpoint.dense import write_bundle
from adaptcp_tf._src.checkpoint.observers import Observers
from adaptcp_tf._src.checkpoint.options import CheckpointOptions
from adaptcp_tf._src.checkpoint.outcomes import Outcomes
from adaptcp_tf._src.checkpoint.second_tier import SecondTier
from adaptcp_tf._src.checkpoint.slowdown import SlowdownMeter
from adaptcp_tf._src.manifest import (
    CheckpointStore,
    DenseBundle,
    GroupSpec,
    Manifest,
    Segment,
    TableSpec,
    Tiers,
    collect,
    discard_attempt,
    extend_chain,
    segment_prefix,
)
from adaptcp_tf._src.ops.eagerly import eagerly
from adaptcp_tf._src.policy import CutReport, Policy, RateHistogram
from adaptcp_tf._src.reports import SaveReport
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import op_message
from adaptcp_tf._src.storage.lock import DirectoryLock
from adaptcp_tf._src.tables import TableGroup

logger = logging.getLogger("adaptcp_tf")

_KINDS = ("base", "increment", "differential")
# A chain is looked up again only if it was not within so much time.
_LOOKS_AGAIN_SECS = 1.0
_PACKAGES = ("tensorflow", "tensorflow-recommenders-addons", "adaptcp_tf")


class Saver:
    """Turns cuts into checkpoints, one at a time, on the manager's background thread."""

    def __init__(
        self,
        tiers: Tiers,
        lock: DirectoryLock,
        second: SecondTier | None,
        policy: Policy,
        slowdown: SlowdownMeter,
        options: CheckpointOptions,
        outcomes: Outcomes,
        observers: Observers,
    ):
        self._tiers = tiers
        self._store = tiers.front
        self._lock = lock
        self._second = second
        self._policy = policy
        self._slowdown = slowdown
        self._last_cut_at = time.time()
        self._options = options
        self._outcomes = outcomes
        self._observers = observers
        # The newest checkpoint of this run; the next delta builds on it.
        self.previous: Manifest | None = None
        # When the files of its chain are looked up again.
        self._looks_again_at = 0.0
        # The newest step in the directory or the buffer.
        self.newest_step = tiers.latest_step()

    def save(self, cut: Cut) -> SaveReport:
        """Drains, writes and commits a cut; after an error its rows will be in the next one.

        Raises:
            CheckpointFailedError: it could not be saved; the cause is attached.
        """
        attempt = None
        direct = cut.reservation.direct
        store = self._tiers.remote if direct else self._store
        try:
            # Retention, on another thread, sees the directory and that it is needed, or neither.
            with store.mutex:
                attempt = store.new_attempt_dir(cut.step)
                if self._second is not None:
                    self._second.began(cut.reservation, attempt)
            segments, counts, dense = self._write(cut, store, attempt)
            manifest = self._manifest(cut, segments, dense)
            elsewhere = self._elsewhere(manifest, attempt, direct)
            self._lock.check()
            self._store.commit(manifest, elsewhere=elsewhere)
        except Exception as error:
            self._give_up(cut, store, attempt)
            raise errors.CheckpointFailedError(
                f"The checkpoint of step {cut.step} in {store.directory!r} could not be "
                f"saved. Training can go on, its rows will be in the next one. "
                f"Received: {op_message(error)}"
            ) from error
        self.previous = manifest
        self.newest_step = cut.step
        report = self._report(cut, segments, counts, manifest)
        self._outcomes.add(report)
        if self._second is not None:
            self._second.committed(cut.reservation, manifest, attempt)
        for group in cut.groups:
            for shard in group.shards:
                shard.end_cut(committed=True)
        rates = _rates_of(cut.groups)
        self._tell_policy(cut, report, segments, rates)
        self._observers.saved(report, rates)
        logger.info(
            "step %d saved as %s: %d hot and %d cold rows, %d removed, %.1f MB, stall %.2f ms, "
            "durable after %.2f s",
            report.step,
            report.kind,
            report.rows_hot,
            report.rows_cold,
            report.tombstones,
            report.bytes / 1e6,
            report.stall_ms,
            report.seconds_to_durable,
        )
        return report

    def check_rises(self, step: int) -> None:
        """Raises unless a step is above all that are there.

        Raises:
            CheckpointExistsError: it is not.
        """
        latest = self.newest_step
        if latest is not None and step <= latest:
            raise errors.CheckpointExistsError(
                f"Checkpoints must be saved under rising steps. Received: {step}. Expected: more "
                f"than {latest}, the newest in {self._tiers.directory!r}. Restore that one first, "
                "call delete_newer(step) to go on from an older one, or use another directory."
            )

    def deleted_newer(self, step: int) -> None:
        """Tells that the checkpoints after `step` were deleted."""
        self.newest_step = self._tiers.latest_step()
        if self.previous is not None and self.previous.step > step:
            # The rows trained since are in no checkpoint that is left.
            self.previous = None

    def _elsewhere(self, manifest: Manifest, attempt: str, direct: bool) -> set[str]:
        """The files of a checkpoint that the first tier need not look for."""
        known = self._looked_up()
        if self._second is None:
            return known
        if direct:
            self._second.written_directly(manifest, attempt)
        return known | self._second.elsewhere(manifest.files())

    def _looked_up(self) -> set[str]:
        """Those of earlier checkpoints that were there a moment ago."""
        if self.previous is None:
            return set()
        # Remotely each look costs a round trip.
        if files.is_local(self._store.directory) and time.monotonic() >= self._looks_again_at:
            self._looks_again_at = time.monotonic() + _LOOKS_AGAIN_SECS
            return set()
        return set(self.previous.files())

    def _tell_policy(
        self,
        cut: Cut,
        report: SaveReport,
        segments: list[Segment],
        rates: Callable[[], RateHistogram],
    ) -> None:
        told = CutReport(
            base=cut.base,
            rows_hot=report.rows_hot,
            rows_cold=report.rows_cold,
            rows_live=cut.rows_live,
            bytes=sum(segment.bytes for segment in segments),
            stall_secs=report.stall_ms / 1e3,
            lost_secs=max(report.stall_ms / 1e3, self._slowdown.take_lost_secs()),
            seconds_to_durable=report.seconds_to_durable,
            # A clock that was set back must not make time run backwards.
            interval_secs=max(0.0, cut.wall_time - self._last_cut_at),
            rates=rates,
        )
        self._last_cut_at = cut.wall_time
        try:
            self._policy.observe(told)
        except Exception as error:  # it may be anybody's
            failure = errors.CheckpointFailedError(
                f"Step {cut.step} is saved, but the strategy {self._policy.name!r} failed to observe "
                f"it. Received: {error!r}. Expected: observe(report) that returns."
            )
            failure.__cause__ = error
            self._outcomes.fail(failure)

    def collect_garbage(self) -> None:
        """Deletes what retention no longer needs.

        Raises:
            StorageError: something could not be deleted; a later call tries again.
        """
        protected = set() if self.previous is None else set(self.previous.files())
        if self._second is not None:
            protected |= self._second.needed()
        report = collect(
            self._store,
            max_to_keep=self._options.max_to_keep,
            keep_period=self._options.keep_period,
            protected=sorted(protected),
        )
        if self._second is not None:
            self._second.deleted(report.deleted_files)
        if report.unreadable:
            logger.warning(
                "no segment is deleted while these manifests cannot be read: %s. Move them away.",
                ", ".join(report.unreadable),
            )

    def _write(
        self, cut: Cut, store: CheckpointStore, attempt: str
    ) -> tuple[list[Segment], dict[str, int], DenseBundle | None]:
        """Writes the dense variables while the rows are drained: both wait for the disk."""

        def write_dense() -> DenseBundle | None:
            with eagerly():
                return write_bundle(cut.dense, store.path(attempt), attempt)

        dense = beside(write_dense, "adaptcp-dense")
        try:
            segments, counts = self._drain(cut, store, attempt)
        finally:
            # Whoever gives up the attempt deletes its files.
            concurrent.futures.wait([dense])
        return segments, counts, dense.result()

    def _drain(
        self, cut: Cut, store: CheckpointStore, attempt: str
    ) -> tuple[list[Segment], dict[str, int]]:
        directory = store.path(attempt)
        segments: list[Segment] = []
        totals: dict[str, int] = {}
        for g, group in enumerate(cut.groups):
            for shard in group.shards:
                prefix = segment_prefix(g, shard.shard, group.num_shards)
                result = shard.drain(directory, prefix, self._options.max_writers)
                for written in result.pop("segments"):
                    name = written.pop("file_name")
                    segments.append(
                        Segment(
                            path=f"{attempt}/{name}",
                            group=group.name,
                            shard=shard.shard,
                            interval=cut.interval,
                            encoding=cut.decision.encoding,
                            slot_encoding=cut.decision.slot_encoding,
                            **written,
                        )
                    )
                for name, count in result.items():
                    totals[name] = totals.get(name, 0) + count
        return segments, totals

    def _manifest(self, cut: Cut, segments: list[Segment], dense: Any) -> Manifest:
        kind = "base" if cut.base else "delta"
        previous = self.previous
        return Manifest(
            step=cut.step,
            interval=cut.interval,
            kind=kind,
            base_interval=cut.interval if cut.base else previous.base_interval,
            segments=extend_chain(previous, segments, kind=kind, interval=cut.interval),
            groups=tuple(_group_spec(group) for group in cut.groups),
            dense=dense,
            position=cut.position,
            counters=cut.counters,
            policy=self._policy.state(),
            versions=_versions(),
            wall_time=cut.wall_time,
        )

    def _report(
        self, cut: Cut, segments: list[Segment], counts: dict[str, int], manifest: Manifest
    ) -> SaveReport:
        seconds = time.time() - cut.wall_time
        dense_bytes = 0 if manifest.dense is None else sum(manifest.dense.files.values())
        sizes = {kind: sum(s.bytes for s in segments if s.kind == kind) for kind in _KINDS}
        return SaveReport(
            step=cut.step,
            kind=manifest.kind,
            wall_time=cut.wall_time,
            hot_threshold=cut.decision.hot_threshold,
            rows_hot=counts.get("rows_hot", 0),
            rows_cold=counts.get("rows_cold", 0),
            tombstones=counts.get("tombstones", 0),
            rows_saved_on_update=counts.get("rows_saved_on_update", 0),
            rows_drained=counts.get("rows_drained", 0),
            rows_prefetched=counts.get("rows_prefetched", 0),
            bytes=sum(sizes.values()) + dense_bytes,
            **{f"bytes_{kind}": size for kind, size in sizes.items()},
            bytes_dense=dense_bytes,
            chain_length=manifest.interval - manifest.base_interval,
            restore_bytes=manifest.totals["bytes"],
            rho=_rho(manifest.policy),
            stall_ms=cut.stall_secs * 1e3 + counts.get("stall_nanos", 0) / 1e6,
            room_wait_ms=cut.reservation.wait_secs * 1e3,
            seconds_to_durable=seconds,
            seconds_to_uploaded=seconds if self._second is None else None,
        )

    def _give_up(self, cut: Cut, store: CheckpointStore, attempt: str | None) -> None:
        for group in cut.groups:
            for shard in group.shards:
                try:
                    shard.end_cut(committed=False)
                except tf.errors.OpError:
                    logger.exception("could not give up a cut of group %r", group.name)
        if self._second is not None:
            self._second.gave_up(cut.reservation, attempt)
        if attempt is None:
            return
        try:
            discard_attempt(store, attempt)
        except errors.AdaptCPError as error:
            logger.warning("what is left of a failed checkpoint stays until later: %s", error)


def _rho(policy: dict[str, Any]) -> float | None:
    solution = policy.get("solution")
    rho = solution.get("rho") if isinstance(solution, dict) else None
    return float(rho) if isinstance(rho, (int, float)) else None


def _rates_of(groups: list[TableGroup]) -> Callable[[], RateHistogram]:
    """Measures the rates when it is called first, for whoever wants to know."""
    shards = [shard for group in groups for shard in group.shards]
    return functools.cache(lambda: RateHistogram.of_sums(shard.rates() for shard in shards))


def _group_spec(group: TableGroup) -> GroupSpec:
    tables = tuple(
        TableSpec(
            name=attached.name,
            dtype=attached.table._value_dtype.name,
            dim=int(attached.table._default_value.shape[0]),
        )
        for attached in group.shards[0].tables
    )
    return GroupSpec(
        name=group.name,
        key_dtype=group.key_dtype.name,
        num_shards=group.num_shards,
        tables=tables,
    )


@functools.cache
def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "unknown"
    return versions
