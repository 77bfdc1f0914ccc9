# SPDX-License-Identifier: Apache-2.0
"""Imports the package before any test imports TFRA, so that it chooses the Keras they share."""

import os

import hypothesis

# Trainings are compared bit by bit, and TFRA's threads insert a stray row now and then: docs/API.md.
os.environ.setdefault("TFRA_NUM_WORKER_THREADS_FOR_LOOKUP_TABLE_INSERT", "1")

import adaptcp_tf  # noqa: F401

# Machines may be busy, and tests must not fail for it.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")
