# SPDX-License-Identifier: Apache-2.0
"""A directory to write an export into, which nobody sees under its name before it is complete."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files
from adaptcp_tf._src.storage.local_files import temporary_name


def check_new(out: str, why: str) -> None:
    """Raises unless a directory can be made: it does not exist, or is empty.

    Args:
        out: the directory.
        why: what files that are there already would do.

    Raises:
        InvalidOptionError: something is in it.
        StorageError: it could not be looked up.
    """
    if files.exists(out) and files.list_dir(out):
        raise errors.InvalidOptionError(
            f"Invalid value for out. Received: {out!r}, which is not empty. Expected: a new "
            f"directory, since {why}."
        )


@contextlib.contextmanager
def staged(out: str) -> Iterator[str]:
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


def publish(staging: str, out: str, last: str) -> None:
    """Gives the files of a staging directory, which has no directories in it, to `out`.

    Args:
        staging: from `staged`.
        out: the directory it was made for.
        last: the file that tells that all are there, where they cannot appear at one instant.

    Raises:
        StorageError: it failed; then none of the files is left in `out`.
    """
    names = files.list_dir(staging)
    try:
        files.move_dir(staging, out, last=last)
    except BaseException:
        with contextlib.suppress(errors.StorageError):
            _delete(out, sorted(set(names) - set(files.list_dir(staging))))
            files.delete_dir_if_empty(out)
        raise


def _delete(directory: str, names: Sequence[str]) -> None:
    for name in names:
        files.delete_file(files.join(directory, name))
