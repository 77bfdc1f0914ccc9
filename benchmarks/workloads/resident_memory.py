# SPDX-License-Identifier: Apache-2.0
"""How much memory of this process is in RAM, and the most it was for a while."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from pathlib import Path

KERNEL = "VmHWM"
SAMPLING = "sampling"

_SELF = Path("/proc/self")
_SAMPLE_SECS = 0.002
# Of the kernel's own count of pages, which threads keep in parts.
_TOLERANCE_BYTES = 4 << 20


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    fields = (_SELF / "statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def release_free_memory() -> None:
    """Gives the system back what the allocator keeps, so that it cannot hide what comes next."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


class PeakMeter:
    """The most memory that is resident from now until `stop`.

    The kernel keeps the peak. Where it does not let a process start it afresh, as in some
    containers, a thread looks every two milliseconds, and may miss a shorter peak.

    Attributes:
        start_bytes: what was resident at first, free memory released.
        method: "VmHWM" or "sampling".
    """

    def __init__(self, *, sampling: bool = False):
        release_free_memory()
        self.start_bytes = resident_bytes()
        self.method = SAMPLING if sampling or not self._restart_kernels() else KERNEL
        self._sampled_bytes = self.start_bytes
        self._stopped = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        if self.method == SAMPLING:
            self._sampler.start()

    def stop(self) -> int:
        """Returns the peak in bytes."""
        if self.method == KERNEL:
            return _kernels_peak_bytes()
        self._stopped.set()
        self._sampler.join()
        return max(self._sampled_bytes, resident_bytes())

    def _restart_kernels(self) -> bool:
        try:
            (_SELF / "clear_refs").write_text("5", encoding="ascii")
            return abs(_kernels_peak_bytes() - self.start_bytes) < _TOLERANCE_BYTES
        except (OSError, LookupError):
            return False

    def _sample(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECS):
            self._sampled_bytes = max(self._sampled_bytes, resident_bytes())


def _kernels_peak_bytes() -> int:
    lines = (_SELF / "status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) << 10
