# SPDX-License-Identifier: Apache-2.0
"""Real faults for tests: a disk that is full, files that are damaged."""

import contextlib
import os
import resource
import subprocess


class SmallDisk:
    """A file system of two megabytes, or as good as that for those who may not mount one."""

    def __init__(self, path, mounted):
        self.path = path
        self._mounted = mounted
        self._filler = path / "filler"

    @contextlib.contextmanager
    def full(self):
        """Meanwhile no data can be written; small files that exist can be."""
        if not self._mounted:
            with file_size_limit(0):
                yield
            return
        with open(self._filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 16, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
        try:
            yield
        finally:
            self._filler.unlink()


@contextlib.contextmanager
def small_disk(path):
    """Makes a SmallDisk at `path`."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
    try:
        yield SmallDisk(path, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextlib.contextmanager
def file_size_limit(limit):
    """Meanwhile this process cannot write beyond `limit` bytes of any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def flip(path, offset, num_bytes=1):
    """Flips one bit in each of some bytes of a file."""
    data = bytearray(path.read_bytes())
    for i in range(num_bytes):
        data[offset + i] ^= 0x10
    path.write_bytes(data)


def truncate(path, length):
    """Cuts a file; a negative length counts from its end."""
    data = path.read_bytes()
    path.write_bytes(data[:length])


def swap(one, other):
    """Exchanges the contents of two files."""
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
