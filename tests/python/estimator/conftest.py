# SPDX-License-Identifier: Apache-2.0
"""Sessions are tested under every TensorFlow, Estimators where there are any."""

from tests.support import estimators

collect_ignore = [] if estimators.EXIST else ["estimator_test.py"]
