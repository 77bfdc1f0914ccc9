# SPDX-License-Identifier: Apache-2.0
"""Made-up holders of a lock, for the tests of locks."""

import dataclasses

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.storage.lock import LOCK_NAME, DirectoryLock, LockHolder
from adaptcp_tf._src.storage.process import current_process


def holder(**changes):
    """A holder like this process, with changes to the process or the lock itself."""
    of_lock = {k: changes.pop(k) for k in ("kernel_locked", "wall_time") if k in changes}
    process = dataclasses.replace(current_process(), **changes)
    plain = LockHolder(owner="x", process=process, kernel_locked=True, wall_time=1.7e9)
    return dataclasses.replace(plain, **of_lock)


def write_lock(directory, content):
    data = content.encode() if isinstance(content, LockHolder) else content
    (directory / LOCK_NAME).write_bytes(data)


def refused(directory, **options):
    with pytest.raises(errors.DirectoryLockedError) as caught:
        DirectoryLock(directory).acquire(**options)
    return caught.value


def other_host():
    return holder(host="elsewhere", boot_id="another", pid=4711)
