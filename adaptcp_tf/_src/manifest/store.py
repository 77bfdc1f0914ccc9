# SPDX-License-Identifier: Apache-2.0
"""A directory of checkpoints: which exist, what they hold, and the commit that adds one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import names
from adaptcp_tf._src.manifest.codec import decode_manifest, encode_manifest
from adaptcp_tf._src.manifest.faults import corrupt
from adaptcp_tf._src.manifest.types import Manifest
from adaptcp_tf._src.storage import files


class CheckpointStore:
    """The checkpoints in one directory. A checkpoint exists if and only if its manifest does.

    Writers hold the `DirectoryLock` of the directory; readers need none. All methods may be called
    from any thread.

    Example:
        >>> store = CheckpointStore(directory)
        >>> store.latest_step() is None
        True

    Args:
        directory: a path or URI; it need not exist as long as nothing is written.
    """

    def __init__(self, directory: files.PathLike):
        self._directory = files.normalize(directory)
        # Held while manifests come or go, so that retention sees all of a commit or nothing.
        self.mutex = threading.RLock()
        # Attempt -> the files in it that were kept when retention last looked.
        self.swept: dict[str, frozenset[str]] = {}
        # Step -> files; manifests do not change, and there may be thousands after a long run.
        self._files: dict[int, frozenset[str]] = {}

    @property
    def directory(self) -> str:
        """The directory, as an absolute path or URI."""
        return self._directory

    def path(self, relative: str) -> str:
        """Returns the full path of a file that a manifest names.

        Example:
            >>> CheckpointStore("gs://bucket/run1").path("segments")
            'gs://bucket/run1/segments'

        Args:
            relative: a path relative to the directory.

        Returns:
            The path or URI.
        """
        return files.join(self._directory, relative)

    def manifest_path(self, step: int) -> str:
        """Returns the full path of the manifest of a step.

        Example:
            >>> CheckpointStore("gs://bucket/run1").manifest_path(7)
            'gs://bucket/run1/manifest-0000000000000007.json'

        Args:
            step: the step.

        Returns:
            The path or URI, whether the manifest exists or not.

        Raises:
            InvalidOptionError: if this cannot be a step.
        """
        return self.path(names.manifest_name(step))

    def list_dir(self, relative: str = "") -> list[str]:
        """Lists a directory of the store; one that does not exist yet is empty.

        Example:
            >>> CheckpointStore(directory).list_dir("segments")
            []

        Args:
            relative: a path relative to the directory; "" for the directory itself.

        Returns:
            The names in it, sorted.

        Raises:
            StorageError: if it could not be listed.
        """
        try:
            return files.list_dir(self.path(relative))
        except errors.StorageNotFoundError:
            return []

    def all_steps(self) -> list[int]:
        """Lists the steps that have a manifest, readable or not.

        Example:
            >>> CheckpointStore(directory).all_steps()
            []

        Returns:
            The steps, rising; none if the directory does not exist.

        Raises:
            StorageError: if the directory could not be listed.
        """
        steps = (names.parse_manifest_name(name) for name in self.list_dir())
        return sorted(step for step in steps if step is not None)

    def latest_step(self) -> int | None:
        """Returns the highest step that has a manifest.

        Example:
            >>> CheckpointStore(directory).latest_step() is None
            True

        Returns:
            The step, or None if there is no checkpoint.

        Raises:
            StorageError: if the directory could not be listed.
        """
        return max(self.all_steps(), default=None)

    def read(self, step: int) -> Manifest:
        """Reads the manifest of a step; `validate` looks at the files it names.

        Example:
            >>> CheckpointStore(directory).read(7)
            Traceback (most recent call last):
            ...
            adaptcp_tf.errors.CheckpointNotFoundError: ...

        Args:
            step: the step.

        Returns:
            Its manifest.

        Raises:
            CheckpointNotFoundError: if there is no such checkpoint.
            CorruptCheckpointError: if the manifest is damaged, or is that of another step.
            StorageError: if it could not be read.
        """
        path = self.manifest_path(step)
        try:
            data = files.read_bytes(path)
        except errors.StorageNotFoundError as error:
            present = ", ".join(map(str, self.all_steps())) or "none"
            raise errors.CheckpointNotFoundError(
                f"No checkpoint of step {step} in {self._directory!r}: {path!r} does not exist. "
                f"Steps there: {present}. Check the directory, and that this host sees it."
            ) from error
        manifest = decode_manifest(data, path)
        if manifest.step != step:
            raise corrupt(path, "step", f"{step}, as in the file name", manifest.step)
        return manifest

    def files_of(self, step: int) -> frozenset[str]:
        """Returns which files a checkpoint needs; reads its manifest at the first call only.

        Example:
            >>> store = CheckpointStore(directory)
            >>> store.commit(empty_manifest)
            >>> store.files_of(1200)
            frozenset()

        Args:
            step: the step.

        Returns:
            Their paths relative to the directory.

        Raises:
            CheckpointNotFoundError, CorruptCheckpointError, StorageError: as `read`.
        """
        with self.mutex:
            if step not in self._files:
                self._files[step] = frozenset(self.read(step).files())
            return self._files[step]

    def forget_all_but(self, steps: Collection[int], attempts: Collection[str]) -> None:
        """Forgets what is known of other steps and attempts, which are there no more."""
        with self.mutex:
            for step in self._files.keys() - set(steps):
                del self._files[step]
            for attempt in self.swept.keys() - set(attempts):
                del self.swept[attempt]

    def validate(self, manifest: Manifest, elsewhere: Collection[str] = ()) -> None:
        """Verifies that every file of a checkpoint is there and has the right size.

        Example:
            >>> store = CheckpointStore(directory)
            >>> for step in store.all_steps():
            ...     store.validate(store.read(step))

        Args:
            manifest: the checkpoint.
            elsewhere: files that are known to be there, or in another tier; not looked up.

        Raises:
            CorruptCheckpointError: naming the first file that is missing or has another size.
            StorageError: if the storage could not tell.
        """
        for relative, expected in manifest.files().items():
            if relative not in elsewhere:
                self.check_file(manifest.step, relative, expected)

    def check_file(self, step: int, relative: str, expected: int) -> None:
        """Verifies that one file of a checkpoint is there and has the right size.

        Args:
            step: the checkpoint's.
            relative: the file's path relative to the directory.
            expected: its size in bytes.

        Raises:
            CorruptCheckpointError: if it is missing or has another size.
            StorageError: if the storage could not tell.
        """
        path = self.path(relative)
        try:
            actual = files.size(path)
        except errors.StorageNotFoundError as error:
            raise errors.CorruptCheckpointError(
                f"The checkpoint of step {step} is incomplete: {path!r} is missing. "
                f"Expected: a file of {expected} bytes. Received: no file. Copy it here again "
                "or restore another step.",
                path=path,
                expected=expected,
            ) from error
        if actual != expected:
            raise corrupt(path, f"(size, step {step})", f"{expected} bytes", actual)

    def commit(
        self, manifest: Manifest, *, replace: bool = False, elsewhere: Collection[str] = ()
    ) -> None:
        """Makes a checkpoint exist, if all of its files do.

        When this returns the checkpoint survives a power loss; when it raises, the checkpoint
        does not exist, except that a storage failure with `replace` leaves either the old
        checkpoint or the new one.

        Example:
            >>> store = CheckpointStore(directory)
            >>> store.commit(empty_manifest)
            >>> store.latest_step()
            1200

        Args:
            manifest: the checkpoint; its files have been written.
            replace: whether a checkpoint of the same step may be replaced.
            elsewhere: as in `validate`.

        Raises:
            CheckpointExistsError: if the step exists and `replace` is False.
            CorruptCheckpointError: if a file is missing or has another size, or the manifest
                contradicts itself.
            InvalidOptionError: if the manifest holds what JSON cannot.
            StorageError: if the manifest could not be written.
        """
        data = encode_manifest(manifest)
        path = self.manifest_path(manifest.step)
        with self.mutex:
            if not replace and files.exists(path):
                raise errors.CheckpointExistsError(
                    f"A checkpoint of step {manifest.step} exists already: {path!r}. Save under "
                    "another step, or delete that checkpoint first."
                )
            self.validate(manifest, elsewhere)
            files.make_dirs(self._directory)
            for relative in self._new_dirs(manifest, elsewhere):
                files.sync_dir(self.path(relative))
            self._files.pop(manifest.step, None)
            try:
                files.write_durably(path, data)
            except errors.StorageError:
                if not replace:
                    # The bytes may have arrived although the answer did not.
                    with contextlib.suppress(errors.StorageError):
                        files.delete_file(path)
                raise
            self._files[manifest.step] = frozenset(manifest.files())

    def new_attempt_dir(self, step: int) -> str:
        """Creates a directory for the files of one attempt to save a step.

        Example:
            >>> CheckpointStore(directory).new_attempt_dir(7).startswith("segments/")
            True

        Args:
            step: the step.

        Returns:
            Its path relative to the directory, `segments/<step>-<nonce>`; never used before.

        Raises:
            InvalidOptionError: if this cannot be a step.
            StorageError: if it could not be created.
        """
        with self.mutex:
            relative = names.new_attempt_dir(step)
            while files.exists(self.path(relative)):
                relative = names.new_attempt_dir(step)
            files.make_dirs(self.path(relative))
            return relative

    def attempt_dirs(self) -> list[str]:
        """Lists the directories of all attempts, committed or not.

        Example:
            >>> CheckpointStore(directory).attempt_dirs()
            []

        Returns:
            Their paths relative to the directory, by rising step.

        Raises:
            StorageError: if the directory could not be listed.
        """
        found = self.list_dir(names.SEGMENTS_DIR)
        return [f"{names.SEGMENTS_DIR}/{name}" for name in found if names.is_attempt_dir(name)]

    def delete_manifest(self, step: int) -> bool:
        """Makes a checkpoint cease to exist; `retention.collect` removes its files later.

        Example:
            >>> CheckpointStore(directory).delete_manifest(7)
            False

        Args:
            step: the step.

        Returns:
            Whether there was such a checkpoint.

        Raises:
            InvalidOptionError: if this cannot be a step.
            StorageError: if the manifest could not be deleted.
        """
        return self.delete_manifests([step]) == [step]

    def delete_manifests(self, steps: Iterable[int]) -> list[int]:
        """Makes several checkpoints cease to exist, durably, for the price of one.

        Example:
            >>> CheckpointStore(directory).delete_manifests([7, 8])
            []

        Args:
            steps: the steps.

        Returns:
            Those of them of which there was a checkpoint.

        Raises:
            InvalidOptionError: if one of these cannot be a step.
            StorageError: if a manifest could not be deleted; those before it are.
        """
        deleted: list[int] = []
        with self.mutex:
            try:
                for step in steps:
                    self._files.pop(step, None)
                    if files.delete_file(self.manifest_path(step)):
                        deleted.append(step)
            finally:
                if deleted:
                    # Otherwise a power loss could bring them back after their segments were deleted.
                    files.sync_dir(self._directory)
        return deleted

    def _new_dirs(self, manifest: Manifest, elsewhere: Collection[str]) -> list[str]:
        """Returns the directories that hold files of this cut and not of earlier ones."""
        return sorted({p.rsplit("/", 1)[0] for p in manifest.new_files() if p not in elsewhere})
