# SPDX-License-Identifier: Apache-2.0
"""Makes `tf.keras` the Keras 2 that TFRA's layers belong to; TensorFlow 2.16 has Keras 3 there."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import metadata
from typing import Any

from adaptcp_tf import errors

_SWITCH = "TF_USE_LEGACY_KERAS"
_ROOTS = ("keras", "tf_keras")
_REMEDY = (
    "Run `pip install tf-keras~={version}`, and set the environment variable "
    f"{_SWITCH}=1 before Python starts, or import adaptcp_tf before TFRA and anything of tf.keras."
)


class WrongKerasError(ImportError):
    """`tf.keras` is Keras 3, which TFRA's layers and optimizers cannot be used with."""


def choose_keras() -> None:
    """Has TensorFlow take Keras 2 for `tf.keras`, where it would take Keras 3 and both are there.

    TensorFlow decides when `tf.keras` is first used, so this comes before. Does nothing when the user
    has decided already, with the environment variable TF_USE_LEGACY_KERAS.
    """
    keras_2 = importlib.util.find_spec("tf_keras") if _has_keras_3() else None
    if keras_2 is None or os.environ.setdefault(_SWITCH, "1") not in ("1", "true", "True"):
        return
    tensorflow = sys.modules.get("tensorflow")
    folder = os.path.join(os.path.dirname(keras_2.origin), "api", "_v2")
    if tensorflow is not None and folder not in tensorflow.__path__:
        # Imported before the choice, it has `import tensorflow.keras`, as in TFRA, find Keras 3.
        tensorflow.__path__ = [folder, *tensorflow.__path__]


def check_keras() -> None:
    """Raises unless `tf.keras` is Keras 2.

    Raises:
        WrongKerasError: it is Keras 3, or cannot be imported.
    """
    import tensorflow as tf

    try:
        found = _root_of(tf.keras.Model)
        version = getattr(importlib.import_module(found), "__version__", "unknown")
    except ImportError as error:
        raise WrongKerasError(
            f"tf.keras cannot be imported: {error} {_remedy(tf.__version__)}"
        ) from error
    if version.split(".")[0] != "2":
        raise WrongKerasError(
            f"tf.keras is not the Keras that TFRA works with. Expected: Keras 2, from tf-keras. "
            f"Found: {found} {version}, {_SWITCH}={os.environ.get(_SWITCH, '')}. "
            f"{_remedy(tf.__version__)}"
        )


def check_is_right_keras(model: Any) -> None:
    """Raises when a model or optimizer is of another Keras than `tf.keras`.

    Raises:
        InvalidOptionError: it is.
    """
    import tensorflow as tf

    right = _root_of(tf.keras.Model)
    roots = {base.__module__.split(".")[0] for base in type(model).__mro__}
    if roots & (set(_ROOTS) - {right}):
        raise errors.InvalidOptionError(
            f"{type(model).__name__} is of another Keras than tf.keras. Received: an object of "
            f"{type(model).__module__}. Expected: one of {right}. Make layers, models and optimizers "
            f"with tf.keras, after adaptcp_tf was imported or with {_SWITCH}=1 set, and not with "
            "`import keras`."
        )


def _has_keras_3() -> bool:
    try:
        return int(metadata.version("keras").split(".")[0]) >= 3
    except metadata.PackageNotFoundError:
        return False


def _root_of(keras_class: type) -> str:
    return keras_class.__module__.split(".")[0]


def _remedy(tensorflow_version: str) -> str:
    return _REMEDY.format(version=".".join([*tensorflow_version.split(".")[:2], "0"]))
