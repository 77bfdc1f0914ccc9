# SPDX-License-Identifier: Apache-2.0
"""The C++ ops and the module that loads them."""
