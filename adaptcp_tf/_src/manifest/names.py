# SPDX-License-Identifier: Apache-2.0
"""Names of the files in a checkpoint directory: how they are made and recognised."""

from __future__ import annotations

import functools
import re
import secrets
from typing import NamedTuple

from adaptcp_tf import errors

SEGMENTS_DIR = "segments"
DENSE_NAME = "dense"
MAX_STEP = 10**16 - 1

_TEMPORARY = r"(\.tmp-[0-9a-f]{8})?"
_ATTEMPT = r"\d{16}-[0-9a-f]{8}"
_SEGMENT = (
    r"g\d+-s(?P<shard>\d+)of(?P<num_shards>\d+)"
    r"-(?P<kind>base|increment|differential)(-p(?P<part>[1-9]\d*))?\.acp"
)
_DENSE = r"dense\.(index|data-\d{5}-of-\d{5})"

_MANIFEST_FILE = re.compile(r"manifest-(\d{16})\.json", re.ASCII)
_MANIFEST_LEFTOVER = re.compile(r"manifest-\d{16}\.json\.tmp-[0-9a-f]{8}", re.ASCII)
_ATTEMPT_DIR = re.compile(_ATTEMPT, re.ASCII)
_SEGMENT_PATH = re.compile(f"{SEGMENTS_DIR}/{_ATTEMPT}/{_SEGMENT}", re.ASCII)
_DENSE_PREFIX = re.compile(f"{SEGMENTS_DIR}/{_ATTEMPT}/{DENSE_NAME}", re.ASCII)
_DENSE_FILE = re.compile(_DENSE, re.ASCII)
# TensorFlow writes a bundle under such a name before it renames it.
_ATTEMPT_FILE = re.compile(
    rf"({_SEGMENT}{_TEMPORARY}|{_DENSE}(\.tempstate\d+)?{_TEMPORARY})", re.ASCII
)


def manifest_name(step: int) -> str:
    """Names the manifest of a step.

    Example:
        >>> manifest_name(1200)
        'manifest-0000000000001200.json'

    Args:
        step: the step, from 0 to 9,999,999,999,999,999.

    Returns:
        The file name.

    Raises:
        InvalidOptionError: if the step is not such an integer.
    """
    return f"manifest-{_step_digits(step)}.json"


def parse_manifest_name(name: str) -> int | None:
    """Reads the step out of the name of a manifest.

    Example:
        >>> parse_manifest_name("manifest-0000000000001200.json")
        1200

    Args:
        name: a file name.

    Returns:
        The step, or None if this is not the name of a manifest.
    """
    match = _MANIFEST_FILE.fullmatch(name)
    return int(match.group(1)) if match else None


def is_manifest_leftover(name: str) -> bool:
    """Tells whether a name is that of a manifest whose writer was killed.

    Example:
        >>> is_manifest_leftover("manifest-0000000000001200.json.tmp-0badcafe")
        True

    Args:
        name: a file name.

    Returns:
        Whether it is.
    """
    return _MANIFEST_LEFTOVER.fullmatch(name) is not None


def new_attempt_dir(step: int) -> str:
    """Makes up a fresh directory for the files of one attempt to save a step.

    Example:
        >>> is_attempt_dir(new_attempt_dir(1200).split("/")[1])
        True

    Args:
        step: the step, as in `manifest_name`.

    Returns:
        A path relative to the checkpoint directory, `segments/<step>-<nonce>`.

    Raises:
        InvalidOptionError: if the step is not a valid step.
    """
    return f"{SEGMENTS_DIR}/{_step_digits(step)}-{secrets.token_hex(4)}"


def is_attempt_dir(name: str) -> bool:
    """Tells whether a name below `segments/` is that of an attempt.

    Example:
        >>> is_attempt_dir("0000000000001200-0badcafe"), is_attempt_dir("backup")
        (True, False)

    Args:
        name: the name of a directory.

    Returns:
        Whether it is.
    """
    return _ATTEMPT_DIR.fullmatch(name) is not None


def step_of_attempt(attempt: str) -> int:
    """Reads the step out of the directory of an attempt.

    Example:
        >>> step_of_attempt("segments/0000000000001200-0badcafe")
        1200

    Args:
        attempt: what `new_attempt_dir` returned.

    Returns:
        The step.
    """
    return int(attempt.rpartition("/")[2].split("-")[0])


def is_attempt_file(name: str) -> bool:
    """Tells whether a name inside an attempt's directory is one that we give to files.

    Example:
        >>> is_attempt_file("g0-s1of2-base.acp"), is_attempt_file("notes.txt")
        (True, False)

    Args:
        name: a file name.

    Returns:
        Whether it is; temporary files of a writer that was killed count too.
    """
    return _ATTEMPT_FILE.fullmatch(name) is not None


def segment_prefix(group_index: int, shard: int, num_shards: int) -> str:
    """Makes the part of a segment's file name that does not depend on its kind.

    The name holds the index of the table group, not its name, so that long variable names and
    slashes in them cannot break it.

    Example:
        >>> segment_prefix(0, 1, 2) + "-base.acp"
        'g0-s1of2-base.acp'

    Args:
        group_index: the position of the table group in the manifest.
        shard: the shard.
        num_shards: the number of shards of the group.

    Returns:
        The prefix.
    """
    return f"g{group_index}-s{shard}of{num_shards}"


class SegmentPath(NamedTuple):
    """What the path of a segment says of it.

    Attributes:
        shard: shard of the table group.
        num_shards: how many shards the group had.
        kind: "base", "increment" or "differential".
        part: which of the files of one cut, group, shard and kind it is, from 0.
    """

    shard: int
    num_shards: int
    kind: str
    part: int


# Each checkpoint asks about its whole chain again.
@functools.lru_cache(maxsize=1 << 14)
def describe_segment_path(path: str) -> SegmentPath | None:
    """Reads shard, number of shards, kind and part out of the path of a segment.

    Example:
        >>> describe_segment_path("segments/0000000000001200-0badcafe/g0-s1of2-base-p3.acp")
        SegmentPath(shard=1, num_shards=2, kind='base', part=3)

    Args:
        path: a path relative to the checkpoint directory.

    Returns:
        The four, or None if this is not a path that we give to segments. The part is 0 for the
        file of the first writer, which may be the only one.
    """
    match = _SEGMENT_PATH.fullmatch(path)
    if match is None:
        return None
    return SegmentPath(
        shard=int(match["shard"]),
        num_shards=int(match["num_shards"]),
        kind=match["kind"],
        part=int(match["part"] or 0),
    )


def is_dense_prefix(path: str) -> bool:
    """Tells whether a path is one that we give to the dense bundle of a checkpoint.

    Example:
        >>> is_dense_prefix("segments/0000000000001200-0badcafe/dense")
        True

    Args:
        path: a path relative to the checkpoint directory.

    Returns:
        Whether it is.
    """
    return _DENSE_PREFIX.fullmatch(path) is not None


def is_dense_file(name: str) -> bool:
    """Tells whether a file name is that of a finished file of a dense bundle.

    Example:
        >>> is_dense_file("dense.index"), is_dense_file("dense.data-00000-of-00001")
        (True, True)

    Args:
        name: a file name.

    Returns:
        Whether it is.
    """
    return _DENSE_FILE.fullmatch(name) is not None


def _step_digits(step: int) -> str:
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= MAX_STEP:
        raise errors.InvalidOptionError(
            f"Invalid value for step. Received: {step!r}. Expected: an integer from 0 to "
            f"{MAX_STEP}."
        )
    return f"{step:016d}"
