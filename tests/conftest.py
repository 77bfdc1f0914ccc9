# SPDX-License-Identifier: Apache-2.0
"""Imports the package before any test imports TFRA, so that it chooses the Keras they share."""

import os

# Trainings are compared bit by bit, and TFRA's threads insert a stray row now and then: docs/API.md.
os.environ.setdefault("TFRA_NUM_WORKER_THREADS_FOR_LOOKUP_TABLE_INSERT", "1")

import adaptcp_tf  # noqa: F401
