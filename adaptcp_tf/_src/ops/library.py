# SPDX-License-Identifier: Apache-2.0
"""Loads the op library, after making sure that it fits the installed TensorFlow."""

import importlib
from pathlib import Path
from types import ModuleType

import tensorflow as tf

_LIBRARY = Path(__file__).with_name("_adaptcp_ops.so")


class LibraryMismatchError(ImportError):
    """The op library is missing, or was built for another TensorFlow than the installed one."""


def built_for() -> str:
    """Returns the TensorFlow version the op library was built for, such as "2.15.1".

    Example:
        >>> from adaptcp_tf._src.ops import library
        >>> library.built_for() == tf.__version__
        True

    Returns:
        The version recorded when the library was built.

    Raises:
        LibraryMismatchError: the library has not been built.
    """
    try:
        build_info = importlib.import_module("adaptcp_tf._src.ops.build_info")
    except ModuleNotFoundError:
        build_info = None
    if build_info is None or not _LIBRARY.exists():
        raise LibraryMismatchError(
            f"The op library of adaptcp_tf is missing. Expected: {_LIBRARY}. "
            "Run `make setup` in the source folder, or install a wheel of adaptcp_tf."
        )
    return build_info.TENSORFLOW_VERSION


def check_version(built: str, installed: str) -> None:
    """Raises unless the library fits: op libraries work with exactly one TensorFlow version.

    Example:
        >>> check_version(built="2.15.1", installed="2.15.1")

    Args:
        built: version the library was built for, such as "2.15.1".
        installed: version of the TensorFlow that is to load it.

    Raises:
        LibraryMismatchError: the versions differ.
    """
    if built != installed:
        raise LibraryMismatchError(
            f"adaptcp_tf was built for another TensorFlow. Expected: tensorflow {built}. "
            f"Found: tensorflow {installed}. Run `pip install tensorflow=={built}`, or build "
            f"adaptcp_tf again in this environment (`make setup` in its source folder)."
        )


def load() -> ModuleType:
    """Returns the module of ops, or raises LibraryMismatchError when the library does not fit."""
    built = built_for()
    check_version(built, tf.__version__)
    try:
        return tf.load_op_library(str(_LIBRARY))
    except tf.errors.NotFoundError as error:
        # Same version, other symbols: a TensorFlow that was not built as the pip package is.
        raise LibraryMismatchError(
            f"The op library of adaptcp_tf cannot be loaded. Expected: tensorflow {built} as "
            f"published for pip. Found: {error.message}. Run `pip install --force-reinstall "
            f"tensorflow=={built}`, or build adaptcp_tf again in this environment (`make setup` "
            "in its source folder)."
        ) from error


ops = load()
