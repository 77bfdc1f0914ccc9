# SPDX-License-Identifier: Apache-2.0
"""What must be so in the process before the rest of the package can work."""

from adaptcp_tf._src.environment.keras_choice import check_is_right_keras, check_keras, choose_keras

__all__ = ["check_is_right_keras", "check_keras", "choose_keras"]
