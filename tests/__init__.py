# SPDX-License-Identifier: Apache-2.0
"""Makes tests a package, so that they can share helpers."""
