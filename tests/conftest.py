# SPDX-License-Identifier: Apache-2.0
"""Imports the package before any test imports TFRA, so that it chooses the Keras they share."""

import adaptcp_tf  # noqa: F401
