# SPDX-License-Identifier: Apache-2.0
"""Some tests are of a TensorFlow whose own Keras is Keras 3: only there they are collected."""

from importlib import metadata

collect_ignore = [] if metadata.version("keras").startswith("3.") else ["keras_3_test.py"]
