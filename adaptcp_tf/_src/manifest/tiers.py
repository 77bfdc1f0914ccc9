# SPDX-License-Identifier: Apache-2.0
"""The two tiers of storage as one: the SSD buffer in front, the durable store behind it."""

from __future__ import annotations

import concurrent.futures
import json
import logging

from adaptcp_tf import errors
from adaptcp_tf._src.manifest.store import CheckpointStore
from adaptcp_tf._src.manifest.types import Manifest
from adaptcp_tf._src.storage import files

logger = logging.getLogger("adaptcp_tf")

BINDING_NAME = "adaptcp-buffer.json"
# Questions to a remote store that are under way at once: each takes a round trip.
_LOOKUPS = 32


class Tiers:
    """The checkpoints of a run, wherever they are.

    A checkpoint is committed in the first tier, which is the SSD buffer if there is one, and later
    in the second, the directory. Of a checkpoint that is in the directory the buffer may hold all,
    some or none of the files; of others it holds those that the directory does not have.

    Methods may be called from any thread; those that write need the locks of both directories.

    Args:
        directory: the durable store, a path or URI.
        local_dir: the SSD buffer, a path; None for a single tier.

    Raises:
        InvalidOptionError: `local_dir` is not a path on a disk, or is the directory.
    """

    def __init__(self, directory: files.PathLike, local_dir: files.PathLike | None = None):
        self.remote = CheckpointStore(directory)
        self.local = None if local_dir is None else CheckpointStore(local_dir)
        if self.local is None:
            return
        if not files.is_local(self.local.directory):
            raise errors.InvalidOptionError(
                f"Invalid value for local_dir. Received: {self.local.directory!r}. Expected: a "
                "path on a disk of this machine."
            )
        if self.local.directory == self.remote.directory:
            raise errors.InvalidOptionError(
                f"Invalid value for local_dir. Received: {self.local.directory!r}, which is the "
                "directory itself. Expected: another path, or None for a single tier."
            )

    @property
    def directory(self) -> str:
        """The durable store."""
        return self.remote.directory

    @property
    def front(self) -> CheckpointStore:
        """The tier that checkpoints are committed in first."""
        return self.remote if self.local is None else self.local

    @property
    def stores(self) -> list[CheckpointStore]:
        """Both tiers, or the only one; the front first."""
        return [self.remote] if self.local is None else [self.local, self.remote]

    def all_steps(self) -> list[int]:
        """Lists the steps that can be restored from either tier, rising.

        Raises:
            StorageError: a directory could not be listed.
        """
        remote_steps = self.remote.all_steps()
        local_steps = self._local_steps(remote_steps)
        return sorted({*remote_steps, *local_steps})

    def latest_step(self) -> int | None:
        """Returns the highest of `all_steps`, None if there is none."""
        return max(self.all_steps(), default=None)

    def read(self, step: int) -> Manifest:
        """Reads the manifest of a step, from the buffer if it is there.

        Raises:
            CheckpointNotFoundError: there is no such checkpoint.
            CorruptCheckpointError: its manifest is damaged.
            StorageError: it could not be read.
        """
        if self.local is not None and step in self._local_steps(self.remote.all_steps()):
            return self.local.read(step)
        return self.remote.read(step)

    def locate(self, manifest: Manifest) -> dict[str, str]:
        """Finds every file of a checkpoint; the buffer's copy is preferred.

        Args:
            manifest: the checkpoint.

        Returns:
            path relative to the directory -> full path. The files of a dense bundle, which are read
            together, are in one tier.

        Raises:
            CorruptCheckpointError: naming a file that is missing, or has another size, in both.
            StorageError: a store could not tell.
        """
        bundle = set() if manifest.dense is None else set(manifest.dense.paths())
        found = {}
        if self.local is not None:
            found = {
                p: self.local.path(p)
                for p, size in manifest.files().items()
                if self._has(self.local, p, size)
            }
            if not bundle <= set(found):
                found = {p: full for p, full in found.items() if p not in bundle}
        missing = {p: n for p, n in manifest.files().items() if p not in found}
        with concurrent.futures.ThreadPoolExecutor(_LOOKUPS) as executor:
            lookups = [
                executor.submit(self.remote.check_file, manifest.step, p, size)
                for p, size in missing.items()
            ]
            for lookup in lookups:
                lookup.result()
        return {p: found.get(p, self.remote.path(p)) for p in manifest.files()}

    def bind(self, keep_period: int | None = None) -> list[Manifest]:
        """Makes the buffer that of the directory, and returns what is still to be uploaded.

        Checkpoints in the buffer that training in another place has left behind are deleted.

        Args:
            keep_period: steps that are a multiple of this are to be uploaded, however old.

        Returns:
            Manifests of the buffer that the directory lacks and shall have, rising.

        Raises:
            InvalidOptionError: the buffer belongs to another directory.
            StorageError: a tier could not be read or written.
        """
        if self.local is None:
            return []
        self._check_binding()
        remote_steps = self.remote.all_steps()
        kept = self._local_steps(remote_steps)
        for step in set(self.local.all_steps()) - set(kept):
            logger.warning(
                "step %d in %r is from before training went on elsewhere, and is deleted: %r has a "
                "later checkpoint",
                step,
                self.local.directory,
                self.directory,
            )
            self.local.delete_manifest(step)
        newest = max(remote_steps, default=-1)
        pending = []
        for step in kept:
            periodic = keep_period is not None and step % keep_period == 0
            if step > newest or (periodic and step not in remote_steps):
                try:
                    pending.append(self.local.read(step))
                except errors.CorruptCheckpointError as error:
                    logger.warning("a checkpoint is not uploaded: %s", error)
        return pending

    def _check_binding(self) -> None:
        path = self.local.path(BINDING_NAME)
        expected = {"directory": self.directory}
        try:
            found = json.loads(files.read_bytes(path))
        except errors.StorageNotFoundError:
            files.make_dirs(self.local.directory)
            files.write_durably(path, json.dumps(expected).encode() + b"\n")
            return
        except ValueError:
            found = None
        if found != expected:
            owner = found.get("directory") if isinstance(found, dict) else "nobody knows which"
            raise errors.InvalidOptionError(
                f"Invalid value for local_dir. Received: {self.local.directory!r}, the buffer of "
                f"{owner!r} as {path!r} says. Expected: one that no other run uses. Choose another "
                "path, or delete that one if its run is over and uploaded."
            )

    def _local_steps(self, remote_steps: list[int]) -> list[int]:
        """Steps of the buffer, without those that training in another place has left behind.

        When a job goes on on another machine, the buffer of the first one keeps what was not uploaded
        in time. That is not the run's past any more.
        """
        if self.local is None:
            return []
        newest = max(remote_steps, default=None)
        return [
            step
            for step in self.local.all_steps()
            if newest is None or not self._left_behind(step, step in remote_steps, newest)
        ]

    def _left_behind(self, step: int, in_remote: bool, newest: int) -> bool:
        if not in_remote and step < newest:
            return False
        try:
            local = self.local.read(step)
        except errors.CheckpointNotFoundError:
            return True  # retention was here
        except errors.CorruptCheckpointError:
            # The directory's copy will do. Otherwise whoever reads it shall hear of the damage.
            return in_remote
        try:
            other = self.remote.read(step if in_remote else newest)
        except (errors.CheckpointNotFoundError, errors.CorruptCheckpointError):
            return False
        return local != other if in_remote else local.wall_time < other.wall_time

    @staticmethod
    def _has(store: CheckpointStore, relative: str, size: int) -> bool:
        try:
            return files.size(store.path(relative)) == size
        except errors.StorageNotFoundError:
            return False
