# SPDX-License-Identifier: Apache-2.0
"""Loads the op library, after making sure that it fits the installed TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import tensorflow as tf

# One library for each TensorFlow it was built for, which its name tells; setup.py gives the names.
_DIRECTORY = Path(__file__).parent
_NAME = "_adaptcp_ops_tf{version}.so"


class LibraryMismatchError(ImportError):
    """The op library is missing, or was built for another TensorFlow than the installed one."""


def built_for() -> list[str]:
    """Returns the TensorFlow versions that op libraries were built for, in ascending order.

    Example:
        >>> from adaptcp_tf._src.ops import library
        >>> library.built_for()
        ['2.15.1']

    Raises:
        LibraryMismatchError: no library has been built.
    """
    start, end = _NAME.split("{version}")
    paths = _DIRECTORY.glob(_NAME.format(version="*"))
    versions = sorted(path.name.removeprefix(start).removesuffix(end) for path in paths)
    if not versions:
        raise LibraryMismatchError(
            f"The op library of adaptcp_tf is missing. Expected: {_path(tf.__version__)}. "
            f"To build it, {_how_to_build(tf.__version__)}; or install a wheel of adaptcp_tf."
        )
    return versions


def check_version(built: Sequence[str], installed: str) -> None:
    """Raises unless a library fits: op libraries work with exactly one TensorFlow version.

    Example:
        >>> check_version(built=["2.15.1"], installed="2.15.1")

    Args:
        built: versions that libraries were built for, such as "2.15.1"; at least one.
        installed: version of the TensorFlow that is to load one.

    Raises:
        LibraryMismatchError: `installed` is none of them.
    """
    if installed not in built:
        raise LibraryMismatchError(
            "adaptcp_tf was built for another TensorFlow. Expected: tensorflow "
            f"{' or '.join(built)}. Found: tensorflow {installed}. Run `pip install "
            f"tensorflow=={built[-1]}`, or build adaptcp_tf in this environment as well: "
            f"{_how_to_build(installed)}."
        )


def load() -> ModuleType:
    """Returns the module of ops, or raises LibraryMismatchError when the library does not fit."""
    installed = tf.__version__
    check_version(built_for(), installed)
    try:
        return tf.load_op_library(str(_path(installed)))
    except tf.errors.NotFoundError as error:
        # Same version, other symbols: a TensorFlow that was not built as the pip package is.
        raise LibraryMismatchError(
            f"The op library of adaptcp_tf cannot be loaded. Expected: tensorflow {installed} as "
            f"published for pip. Found: {error.message}. Run `pip install --force-reinstall "
            f"tensorflow=={installed}`, or build adaptcp_tf again: {_how_to_build(installed)}."
        ) from error


def _path(version: str) -> Path:
    return _DIRECTORY / _NAME.format(version=version)


def _how_to_build(version: str) -> str:
    return f"run `make setup TF={'.'.join(version.split('.')[:2])}` in the source folder"


ops = load()
