# SPDX-License-Identifier: Apache-2.0
"""A store that is as slow and unreliable as a remote one: slow:///folder is the local /folder."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from pathlib import Path

import tensorflow as tf

_LIBRARY = Path(__file__).with_name(f"_slow_store_tf{tf.__version__}.so")
_COUNTERS = 4


@dataclasses.dataclass(frozen=True)
class Counters:
    """What happened since `configure`.

    Attributes:
        requests: opening, closing, reading, listing, deleting and the like, one each.
        failures: requests that failed.
        bytes_written: into files, finished or not.
        bytes_read: from files.
    """

    requests: int
    failures: int
    bytes_written: int
    bytes_read: int


@functools.cache
def _library() -> ctypes.CDLL:
    if not _LIBRARY.exists():
        raise RuntimeError(f"There is no {_LIBRARY}. Run `make setup`.")
    # TensorFlow learns the scheme when the library is loaded.
    tf.load_library(str(_LIBRARY))
    library = ctypes.CDLL(str(_LIBRARY))
    library.adaptcp_slow_store_configure.argtypes = [ctypes.c_double] * 4 + [ctypes.c_uint64]
    library.adaptcp_slow_store_configure.restype = None
    library.adaptcp_slow_store_counters.argtypes = [ctypes.POINTER(ctypes.c_uint64)]
    library.adaptcp_slow_store_counters.restype = None
    return library


def configure(
    *,
    stream_bytes_per_sec: float = 0.0,
    total_bytes_per_sec: float = 0.0,
    latency_secs: float = 0.0,
    failure_rate: float = 0.0,
    seed: int = 0,
) -> None:
    """Sets how slow and unreliable the store is, for the whole process, and resets the counters.

    Args:
        stream_bytes_per_sec: of each open file, or read; 0 sets no limit.
        total_bytes_per_sec: of all streams together; 0 sets no limit.
        latency_secs: of each request.
        failure_rate: share of requests that fail as unavailable, 0 to 1.
        seed: of the failures.
    """
    _library().adaptcp_slow_store_configure(
        stream_bytes_per_sec, total_bytes_per_sec, latency_secs, failure_rate, seed
    )


def counters() -> Counters:
    """Returns what happened since the last `configure`."""
    values = (ctypes.c_uint64 * _COUNTERS)()
    _library().adaptcp_slow_store_counters(values)
    return Counters(*values)


def url(path: str | Path) -> str:
    """The slow store's name of a local path."""
    _library()
    return f"slow://{Path(path).absolute()}"
