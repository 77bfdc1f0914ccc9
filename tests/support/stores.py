# SPDX-License-Identifier: Apache-2.0
"""The store of the benchmarks that is slow and fails on demand, for tests in any folder."""

import sys

from tests.support import processes

sys.path.append(str(processes.ROOT / "benchmarks"))
from workloads import slow_store

__all__ = ["slow_store"]
