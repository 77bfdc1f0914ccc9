# SPDX-License-Identifier: Apache-2.0
"""The strategies on rows that exist as counters only: what checkpoints would hold, at any scale."""

from adaptcp_tf._src.simulator.population import ZipfPopulation
from adaptcp_tf._src.simulator.rows import SavedRows, SimulatedRows
from adaptcp_tf._src.simulator.run import SimulatedCheckpoint, Storage, simulate
from adaptcp_tf._src.simulator.segments import RowLayout, Table

__all__ = [
    "RowLayout",
    "SavedRows",
    "SimulatedCheckpoint",
    "SimulatedRows",
    "Storage",
    "Table",
    "ZipfPopulation",
    "simulate",
]
