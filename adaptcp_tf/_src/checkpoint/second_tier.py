# SPDX-License-Identifier: Apache-2.0
"""The way of checkpoints from the SSD buffer to the directory, as the manager sees it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.buffer import LocalBuffer
from adaptcp_tf._src.checkpoint.observers import Observers
from adaptcp_tf._src.checkpoint.options import CheckpointOptions
from adaptcp_tf._src.checkpoint.outcomes import Outcomes
from adaptcp_tf._src.checkpoint.uploading import Uploader
from adaptcp_tf._src.manifest import Manifest, Tiers, collect
from adaptcp_tf._src.reports import StorageStats
from adaptcp_tf._src.storage.lock import DirectoryLock

logger = logging.getLogger("adaptcp_tf")


@dataclasses.dataclass(frozen=True)
class Reservation:
    """Room for the files of one checkpoint.

    Attributes:
        bytes: reserved in the buffer.
        direct: whether they are larger than the whole buffer, and so go to the directory.
        wait_secs: for how long training waited.
    """

    bytes: int = 0
    direct: bool = False
    wait_secs: float = 0.0


class SecondTier:
    """Takes over the buffer of a directory that is locked, and uploads what is in it.

    Args:
        tiers: both of them.
        lock: of the directory.
        options: how to save and keep.
        outcomes: where results are noted.
        observers: who hears of uploads.
        device_of: the device of a group's shard, by name and number.
        on_broken: called when a file is lost that later checkpoints build on.

    Raises:
        DirectoryLockedError: another trainer uses the buffer.
        InvalidOptionError: it is the buffer of another directory.
        StorageError: it cannot be used.
    """

    def __init__(
        self,
        tiers: Tiers,
        lock: DirectoryLock,
        options: CheckpointOptions,
        outcomes: Outcomes,
        observers: Observers,
        device_of: Callable[[str, int], str],
        on_broken: Callable[[], None],
    ):
        self._tiers = tiers
        self._outcomes = outcomes
        self._observers = observers
        self._on_broken = on_broken
        self._room_wait_secs = 0.0
        self.lock = DirectoryLock(tiers.local.directory).acquire(steal=options.steal_lock)
        try:
            self._pending = tiers.bind(options.keep_period)
            # What was written when a process was killed would take room for ever.
            collect(tiers.local, max_to_keep=None)
            self._buffer = LocalBuffer(tiers.local, options.local_bytes)
            self._uploader = Uploader(
                tiers,
                lock,
                self._buffer,
                num_threads=options.upload_threads,
                patience_secs=options.upload_patience_secs,
                max_to_keep=options.max_to_keep,
                keep_period=options.keep_period,
                device_of=device_of,
                on_uploaded=self._note_uploaded,
                on_failure=self._note_failure,
            )
            self._know_directory()
        except BaseException:
            self.lock.release()
            raise

    def start(self) -> None:
        """Uploads what an earlier process left behind."""
        for manifest in self._pending:
            self._uploader.submit(manifest)

    def stats(self, local_step: int | None) -> StorageStats:
        """How far both tiers are, given the newest step of the first."""
        counters = self._uploader.counters
        return StorageStats(
            local_step=local_step,
            remote_step=self._uploader.remote_step,
            local_bytes=self._buffer.bytes,
            uploaded_bytes=counters.bytes,
            upload_retries=counters.retries,
            superseded=counters.superseded,
            room_wait_secs=self._room_wait_secs,
        )

    def reserve(self, size: int) -> Reservation:
        """Makes room for a checkpoint of at most so many bytes; may wait for uploads.

        Raises:
            StorageFullError: uploads fail, so that there will be none.
        """
        if not self._buffer.fits(size):
            logger.warning(
                "a checkpoint of up to %.1f MB does not fit into the buffer %r, and is written to %r "
                "at once; raise local_bytes to have it written in the background",
                size / 1e6,
                self._tiers.local.directory,
                self._tiers.directory,
            )
            return Reservation(direct=True)
        self._uploader.retry()
        waited = self._buffer.reserve(
            size,
            may_wait=lambda: self._uploader.working,
            give_up_old=self._give_up_old,
        )
        self._room_wait_secs += waited
        return Reservation(bytes=size, wait_secs=waited)

    def began(self, reservation: Reservation, attempt: str) -> None:
        """Tells where the files of the checkpoint are written, relative to the tier's directory."""
        if reservation.direct:
            self._uploader.expect(attempt)

    def committed(self, reservation: Reservation, manifest: Manifest, attempt: str) -> None:
        """Takes over a checkpoint that is durable in the first tier."""
        new = {} if reservation.direct else _files_below(attempt, manifest)
        self._buffer.settle(reservation.bytes, new)
        self._uploader.submit(manifest)
        self._uploader.forget(attempt)

    def gave_up(self, reservation: Reservation, attempt: str | None) -> None:
        """Gives the room back, of a checkpoint that could not be saved."""
        self._buffer.settle(reservation.bytes, {})
        if attempt is not None:
            self._uploader.forget(attempt)

    def written_directly(self, manifest: Manifest, attempt: str) -> None:
        """Makes sure that the new files of a checkpoint are in the directory already.

        Raises:
            CorruptCheckpointError: one is missing or has another size.
            StorageError: the store could not tell.
        """
        new = _files_below(attempt, manifest)
        for path, size in new.items():
            self._tiers.remote.check_file(manifest.step, path, size)
        self._buffer.add_uploaded(new)

    def elsewhere(self, paths: dict[str, int]) -> set[str]:
        """Those files that are in the directory and not in the buffer."""
        return self._buffer.elsewhere(paths)

    def needed(self) -> set[str]:
        """Files of the buffer that have still to be uploaded."""
        return self._uploader.needed()

    def deleted(self, paths: tuple[str, ...]) -> None:
        """Tells that files of the buffer were deleted."""
        self._buffer.forget(paths)

    def wait(self, timeout_secs: float | None) -> bool:
        """Waits until the newest checkpoint is durable in the directory, or that has failed.

        Returns:
            False when it takes longer.
        """
        return self._uploader.wait(timeout_secs)

    def withdraw(self, after_step: int) -> None:
        """Forgets checkpoints after a step, that are deleted."""
        self._uploader.withdraw(after_step)

    def stop(self) -> None:
        """Ends uploads, where they are, and gives back the buffer."""
        self._uploader.stop()
        self.lock.release()

    def _know_directory(self) -> None:
        """Learns which files the directory has: those of its newest checkpoint."""
        step = self._tiers.remote.latest_step()
        self._uploader.remote_step = step
        if step is not None:
            with contextlib.suppress(errors.CorruptCheckpointError):
                self._buffer.add_uploaded(self._tiers.remote.read(step).files())

    @contextlib.contextmanager
    def restoring(self, manifest: Manifest) -> Iterator[None]:
        """While in it neither tier loses a file of a checkpoint; the directory not even later on."""
        self._uploader.keep(manifest.files())
        with self._buffer.kept():
            yield

    def know(self, manifest: Manifest, paths: Mapping[str, str]) -> None:
        """Learns which of the files of a restored checkpoint the directory has.

        Args:
            manifest: the checkpoint.
            paths: where its files were found.
        """
        sizes = manifest.files()
        committed = manifest.step in self._tiers.remote.all_steps()
        remote = self._tiers.remote
        self._buffer.add_uploaded(
            {p: n for p, n in sizes.items() if committed or paths[p] == remote.path(p)}
        )

    def _give_up_old(self) -> None:
        """Deletes checkpoints that were never uploaded, and that newer ones in the directory replace.

        Called by the thread that trains, while nothing is being saved.
        """
        local, remote_step = self._tiers.local, self._uploader.remote_step
        if remote_step is None:
            return
        old = [step for step in local.all_steps() if step < remote_step]
        kept = [step for step in local.all_steps() if step >= remote_step]
        try:
            needed = set().union(*(local.files_of(step) for step in kept))
        except errors.CorruptCheckpointError as error:
            logger.warning("no file is deleted to make room: %s", error)
            return
        for step in old:
            local.delete_manifest(step)
        self._buffer.drop_unless(needed | self._uploader.needed())

    def _note_uploaded(self, manifest: Manifest) -> None:
        report = self._outcomes.uploaded(manifest.step, manifest.wall_time)
        if report is not None:
            self._observers.uploaded(report)

    def _note_failure(self, failure: errors.CheckpointFailedError, broken: Manifest | None) -> None:
        logger.warning("%s", failure)
        self._outcomes.fail(failure)
        if broken is None:
            return
        self._on_broken()
        local = self._tiers.local
        try:
            local.delete_manifest(broken.step)
            others = set().union(*(local.files_of(step) for step in local.all_steps()))
            self._buffer.write_off(set(broken.files()) - others - self._uploader.needed())
        except errors.AdaptCPError as error:
            logger.warning("what is left of step %d stays in the buffer: %s", broken.step, error)


def _files_below(attempt: str, manifest: Manifest) -> dict[str, int]:
    """The files of a checkpoint that one attempt wrote, with their sizes."""
    return {p: n for p, n in manifest.files().items() if p.startswith(attempt + "/")}


def weak_call(method: Any) -> Callable[..., Any]:
    """A call of a bound method that does not keep its object alive; None once that is gone."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> Any:
        target = reference()
        return None if target is None else target(*args)

    return call
