# SPDX-License-Identifier: Apache-2.0
"""The guide to Estimators can be followed where there are any."""

from tests.support import estimators

collect_ignore = [] if estimators.EXIST else ["estimator_guide_test.py"]
