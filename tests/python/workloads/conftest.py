# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import what benchmarks and examples share, as the benchmarks themselves do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
