# SPDX-License-Identifier: Apache-2.0
"""Brings committed checkpoints from the SSD buffer to the directory, in the background."""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.buffer import LocalBuffer
from adaptcp_tf._src.manifest import Manifest, Tiers, collect
from adaptcp_tf._src.ops.upload import FileCopy, upload
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.failures import translated
from adaptcp_tf._src.storage.lock import DirectoryLock

logger = logging.getLogger("adaptcp_tf")

_REQUEST_WAITS_SECS = (0.05, 0.1, 0.2, 0.4, 0.8)
_FIRST_WAIT_SECS = 0.5
_LONGEST_WAIT_SECS = 30.0
# What will not change by itself. That something is not found or not a directory, stores say too when
# they cannot tell.
_LASTING_ERRORS = (errors.StoragePermissionError, errors.UnsupportedFileSystemError)
_LASTING_CAUSES = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnimplementedError,
)


@dataclasses.dataclass(frozen=True)
class UploadCounters:
    """What uploads of this process have done.

    Attributes:
        bytes: uploaded.
        retries: requests or whole uploads that were tried again.
        superseded: checkpoints that were not uploaded, since a newer one was.
    """

    bytes: int = 0
    retries: int = 0
    superseded: int = 0


class Uploader:
    """Uploads checkpoints one at a time, the newest first; the manifest of each goes last.

    Checkpoints that became old while another was uploaded are left out, but for those that
    `keep_period` keeps: whoever restores wants the newest, and on a slow store the others would only
    delay it. What is not uploaded when the process ends is taken up again by the next one.

    Args:
        tiers: both of them.
        lock: of the directory.
        buffer: of the first tier.
        num_threads: files that are uploaded at once.
        patience_secs: for how long a checkpoint is tried again while the store fails.
        max_to_keep, keep_period: as in the options.
        device_of: the device of a group's shard, by name and number.
        on_uploaded: called with the manifest of each that is durable in the directory.
        on_failure: called with what went wrong, and the manifest if a file of it is lost, that later
            checkpoints build on.
    """

    def __init__(
        self,
        tiers: Tiers,
        lock: DirectoryLock,
        buffer: LocalBuffer,
        *,
        num_threads: int,
        patience_secs: float,
        max_to_keep: int | None,
        keep_period: int | None,
        device_of: Callable[[str, int], str],
        on_uploaded: Callable[[Manifest], None],
        on_failure: Callable[[errors.CheckpointFailedError, Manifest | None], None],
    ):
        self._tiers = tiers
        self._lock = lock
        self._buffer = buffer
        self._num_threads = num_threads
        self._patience_secs = patience_secs
        self._max_to_keep = max_to_keep
        self._keep_period = keep_period
        self._device_of = device_of
        self._on_uploaded = on_uploaded
        self._on_failure = on_failure
        # Directories that are there; used by the thread that uploads.
        self._made: set[str] = set()
        self._changed = threading.Condition()
        # Guarded by `_changed`.
        self._pending: dict[int, Manifest] = {}
        # Directories of attempts whose files are not in a manifest yet.
        self._attempts: set[str] = set()
        # Files of a restored checkpoint, until the next one names them.
        self._restored: frozenset[str] = frozenset()
        # Whether the directory may have files that nobody here knows of.
        self._resume = True
        self._working = False
        self._stopping = False
        self._counters = UploadCounters()
        self.remote_step: int | None = None

    @property
    def counters(self) -> UploadCounters:
        """What has been done so far."""
        with self._changed:
            return self._counters

    @property
    def working(self) -> bool:
        """Whether an upload is under way, or will be tried again."""
        with self._changed:
            return self._working

    def submit(self, manifest: Manifest) -> None:
        """Uploads a checkpoint that is committed in the first tier, and older ones that are left."""
        with self._changed:
            self._pending[manifest.step] = manifest
            self._restored = frozenset()
            self._start()

    def retry(self) -> None:
        """Tries again what failed."""
        with self._changed:
            self._start()

    def keep(self, paths: Iterable[str]) -> None:
        """Has retention in the directory leave alone what is restored, until the next checkpoint."""
        with self._tiers.remote.mutex, self._changed:
            self._restored = frozenset(paths)

    def expect(self, attempt: str) -> None:
        """Tells that files of a checkpoint are written to the directory itself, until `forget`."""
        with self._changed:
            self._attempts.add(attempt)

    def forget(self, attempt: str) -> None:
        """Tells that they are not any more: the checkpoint is submitted, or given up."""
        with self._changed:
            self._attempts.discard(attempt)

    def needed(self) -> set[str]:
        """The files that have still to be uploaded, relative to the directory."""
        with self._changed:
            manifests = list(self._pending.values())
        return {path for manifest in manifests for path in manifest.files()}

    def wait(self, timeout_secs: float | None) -> bool:
        """Waits until nothing is left, or no more can be done; tries again what failed.

        Returns:
            False when it takes longer.
        """
        with self._changed:
            self._start()
            return self._changed.wait_for(lambda: not self._working, timeout_secs)

    def withdraw(self, after_step: int) -> None:
        """Does not upload checkpoints after a step; nothing is under way."""
        with self._changed:
            for step in [s for s in self._pending if s > after_step]:
                del self._pending[step]
        self.remote_step = self._tiers.remote.latest_step()

    def stop(self) -> None:
        """Starts no further upload; the one that is under way may end."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _start(self) -> None:
        if self._pending and not self._working and not self._stopping:
            self._working = True
            # Not of a pool: those take nothing more once the interpreter ends, but the last save may
            # be committed then. The interpreter waits for this thread.
            threading.Thread(target=self._work, name="adaptcp-upload").start()

    def _work(self) -> None:
        failed: Manifest | None = None
        try:
            while failed is None:
                with self._changed:
                    if self._stopping or not self._pending:
                        return
                    manifest = self._pending[max(self._pending)]
                failure = self._upload_patiently(manifest)
                if failure is not None:
                    failed = manifest
                    if self._give_up(manifest, failure):
                        failed = None
        finally:
            with self._changed:
                self._working = False
                if failed is None or max(self._pending, default=-1) > failed.step:
                    self._start()
                self._changed.notify_all()
            self._buffer.wake()

    def _drop_superseded(self, uploaded: Manifest) -> None:
        """Nobody will want checkpoints any more that are older than one in the directory."""
        for step in [s for s in self._pending if s < uploaded.step and not self._is_kept(s)]:
            del self._pending[step]
            self._count(superseded=1)

    def _is_kept(self, step: int) -> bool:
        return self._keep_period is not None and step % self._keep_period == 0

    def _upload_patiently(self, manifest: Manifest) -> Exception | None:
        deadline = time.monotonic() + self._patience_secs
        wait_secs = _FIRST_WAIT_SECS
        while True:
            try:
                self._upload(manifest)
                return None
            except Exception as error:
                if _is_lasting(error) or time.monotonic() + wait_secs > deadline:
                    return error
                logger.warning(
                    "step %d could not be uploaded to %r, next try in %.1f s: %s",
                    manifest.step,
                    self._tiers.directory,
                    wait_secs,
                    error,
                )
            with self._changed:
                self._count(retries=1)
                self._resume = True
                if self._changed.wait_for(
                    lambda: self._stopping, wait_secs * random.uniform(0.5, 1)
                ):
                    return None
            wait_secs = min(2 * wait_secs, _LONGEST_WAIT_SECS)

    def _upload(self, manifest: Manifest) -> None:
        self._insist(self._lock.check)
        missing = [p for p in manifest.files() if not self._buffer.is_uploaded(p)]
        for directory in sorted({path.rsplit("/", 1)[0] for path in missing} - self._made):
            self._insist(lambda d=directory: files.make_dirs(self._tiers.remote.path(d)))
            self._made.add(directory)
        for device, paths in self._by_device(manifest, missing).items():
            self._copy(manifest, device, paths)
        self._insist(self._lock.check)
        self._insist(lambda: self._commit(manifest))
        self._buffer.add_uploaded(manifest.files())
        with self._changed:
            self._pending.pop(manifest.step, None)
            self._drop_superseded(manifest)
            self._resume = self._resume and bool(self._pending)
            self.remote_step = max(manifest.step, self.remote_step or 0)
        self._on_uploaded(manifest)
        self._collect_garbage()

    def _insist(self, action: Callable[[], None]) -> None:
        """Tries a few requests some times over: a store may fail one in so many."""
        for wait_secs in _REQUEST_WAITS_SECS:
            try:
                return action()
            except errors.StorageError as error:
                if _is_lasting(error):
                    raise
            with self._changed:
                self._count(retries=1)
                if self._changed.wait_for(lambda: self._stopping, wait_secs * random.random()):
                    break
        return action()

    def _commit(self, manifest: Manifest) -> None:
        try:
            self._tiers.remote.commit(manifest, elsewhere=manifest.files())
        except errors.CheckpointExistsError:
            # Of an earlier try, whose answer got lost?
            if self._tiers.remote.read(manifest.step) != manifest:
                raise

    def _by_device(self, manifest: Manifest, paths: Sequence[str]) -> dict[str, list[str]]:
        shards = {s.path: (s.group, s.shard) for s in manifest.segments}
        found: dict[str, list[str]] = {}
        for path in paths:
            device = self._device_of(*shards[path]) if path in shards else ""
            found.setdefault(device, []).append(path)
        return found

    def _copy(self, manifest: Manifest, device: str, paths: Sequence[str]) -> None:
        sizes = manifest.files()
        remote, local = self._tiers.remote, self._tiers.local
        with self._changed:
            resume = self._resume
        with translated("upload to", remote.path(paths[0])):
            result = upload(
                [FileCopy(local.path(p), remote.path(p), sizes[p]) for p in paths],
                device=device,
                num_threads=self._num_threads,
                atomic_writes=files.writes_atomically(remote.directory),
                resume=resume,
            )
        with self._changed:
            self._count(bytes=result["bytes"], retries=result["retries"])

    def _collect_garbage(self) -> None:
        """Has the directory keep what the options say."""
        try:
            self._insist(self._collect)
        except errors.AdaptCPError as error:
            logger.warning(
                "old checkpoints in %r could not be deleted, the next upload tries again: %s",
                self._tiers.directory,
                error,
            )

    def _collect(self) -> None:
        # So that what is expected or kept from now on waits until it is over.
        with self._tiers.remote.mutex:
            with self._changed:
                protected = self._attempts | self._restored
            protected |= self.needed()
            report = collect(
                self._tiers.remote,
                max_to_keep=self._max_to_keep,
                keep_period=self._keep_period,
                protected=sorted(protected),
            )
            self._buffer.forget_uploaded(report.deleted_files)

    def _give_up(self, manifest: Manifest, error: Exception) -> bool:
        """Tells of a failure; returns whether there may be others to upload instead."""
        broken = isinstance(error.__cause__, tf.errors.DataLossError)
        with self._changed:
            if broken:
                self._pending.pop(manifest.step, None)
        failure = errors.CheckpointFailedError(
            f"The checkpoint of step {manifest.step} could not be uploaded to "
            f"{self._tiers.directory!r}. It is in {self._tiers.local.directory!r}"
            + (", but damaged. " if broken else ", and is tried again with the next one. ")
            + f"Received: {error}"
        )
        failure.__cause__ = error
        self._on_failure(failure, manifest if broken else None)
        return broken

    def _count(self, **more: int) -> None:
        self._counters = dataclasses.replace(
            self._counters, **{name: getattr(self._counters, name) + n for name, n in more.items()}
        )


def _is_lasting(error: Exception) -> bool:
    """Whether an upload will fail again however long one waits."""
    if not isinstance(error, errors.StorageError):
        return True
    return isinstance(error, _LASTING_ERRORS) or isinstance(error.__cause__, _LASTING_CAUSES)
