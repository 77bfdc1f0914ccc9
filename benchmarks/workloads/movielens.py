# SPDX-License-Identifier: Apache-2.0
"""MovieLens-100k in time order, fetched once from the wheel that carries it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CACHE_FILE = ROOT / ".cache" / "ml-100k.inter"

_REQUIREMENT = "recbole==1.2.1"
_MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
_SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"


class Ratings(NamedTuple):
    """Ratings in time order.

    users, items: `[n]` int64 ids.  ratings: `[n]` float32, 1 to 5.  timestamps: `[n]` int64 seconds.
    """

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    timestamps: np.ndarray


def load(samples: int | None = None) -> Ratings:
    """Loads the first `samples` ratings by time (all 100,000 if None), fetching them if need be.

    The data may not be redistributed, so it is taken out of a package that carries it and kept in
    `.cache/` of the project.

    Raises:
      ValueError: if the data is not the expected one (SHA-256), or holds fewer ratings.
      RuntimeError: if it cannot be fetched.
    """
    if not CACHE_FILE.exists():
        _write_atomically(CACHE_FILE, fetch())
    ratings = parse(check(CACHE_FILE.read_bytes(), str(CACHE_FILE)))
    if samples is None:
        return ratings
    if not 0 < samples <= len(ratings.users):
        raise ValueError(
            f"Invalid number of samples. Received: {samples}. Expected: 1 to {len(ratings.users)}."
        )
    return Ratings(*(column[:samples] for column in ratings))


def fetch() -> bytes:
    """Downloads the wheel with pip and returns the ratings file in it.

    Raises:
      RuntimeError: if pip fails; the message holds pip's last words.
      ValueError: if the file in the wheel is not the expected one.
    """
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--dest", directory, _REQUIREMENT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(
                f"MovieLens-100k could not be fetched: `pip download {_REQUIREMENT}` ended with "
                f"status {done.returncode}: {done.stderr.strip()[-500:]} Check the network, or put "
                f"ml-100k.inter into {CACHE_FILE}."
            )
        (wheel,) = Path(directory).glob("*.whl")
        return read_member(wheel)


def read_member(wheel: Path) -> bytes:
    """Returns the ratings file inside a wheel.

    Raises:
      ValueError: if the file is not the expected one.
    """
    with zipfile.ZipFile(wheel) as archive:
        return check(archive.read(_MEMBER), f"{wheel.name}:{_MEMBER}")


def check(content: bytes, origin: str) -> bytes:
    """Returns `content` if it is MovieLens-100k as published.

    Raises:
      ValueError: if its SHA-256 differs.
    """
    digest = hashlib.sha256(content).hexdigest()
    if digest != _SHA256:
        raise ValueError(
            f"{origin} is not the expected data. Received SHA-256: {digest}. Expected: {_SHA256}. "
            f"Delete {CACHE_FILE} to fetch it again."
        )
    return content


def parse(content: bytes) -> Ratings:
    """Parses `user item rating timestamp` lines and puts them in time order (ties keep theirs)."""
    lines = content.decode("ascii").splitlines()[1:]
    table = np.array([line.split("\t") for line in lines], dtype=np.float64)
    table = table[np.argsort(table[:, 3], kind="stable")]
    users, items, timestamps = (table[:, column].astype(np.int64) for column in (0, 1, 3))
    return Ratings(users, items, table[:, 2].astype(np.float32), timestamps)


def _write_atomically(path: Path, content: bytes) -> None:
    # Two processes may fetch at once; each renames a complete file into place.
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    os.replace(partial, path)
