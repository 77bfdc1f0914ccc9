# SPDX-License-Identifier: Apache-2.0
"""Input streams, models and digests that the benchmarks, the examples and the tests share."""
