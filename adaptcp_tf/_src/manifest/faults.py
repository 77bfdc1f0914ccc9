# SPDX-License-Identifier: Apache-2.0
"""One way to say which field of which file of a checkpoint is wrong."""

from __future__ import annotations

import reprlib
from typing import Any

from adaptcp_tf import errors

_shorten = reprlib.Repr()
_shorten.maxstring = _shorten.maxother = 200


def corrupt(
    path: str,
    field: str,
    expected: Any,
    received: Any,
    advice: str = "Restore another step, or fetch the file again from where it was copied.",
) -> errors.CorruptCheckpointError:
    """Makes the error for one wrong field; the caller raises it.

    Example:
        >>> str(corrupt("/d/m.json", "step", "an integer of 0 or more", -1))[:42]
        "Corrupt checkpoint file '/d/m.json', field"

    Args:
        path: the file that is wrong.
        field: the field in it, such as `segments[3].interval`.
        expected: what a sound file holds there, in words or as a value.
        received: what was found.
        advice: what the user can do.

    Returns:
        The error.
    """
    wanted = expected if isinstance(expected, str) else repr(expected)
    found = _shorten.repr(received)
    return errors.CorruptCheckpointError(
        f"Corrupt checkpoint file {path!r}, field {field!r}. Received: {found}. "
        f"Expected: {wanted}. {advice}",
        path=path,
        field=field,
        expected=expected,
        received=received,
    )
