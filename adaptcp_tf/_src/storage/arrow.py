# SPDX-License-Identifier: Apache-2.0
"""The package that reads and writes Parquet, which need not be installed."""

from __future__ import annotations

from typing import Any

from adaptcp_tf import errors


def pyarrow() -> Any:
    """Returns the module that reads and writes Parquet.

    Raises:
        InvalidOptionError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise errors.InvalidOptionError(
            f"Parquet needs the package pyarrow, which cannot be imported. Received: {error}. "
            "Install it (pip install pyarrow), or choose another format."
        ) from error
    return pyarrow
