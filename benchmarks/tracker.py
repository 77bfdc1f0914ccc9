# SPDX-License-Identifier: Apache-2.0
"""Cost of the row tracker, and of a checkpoint of few updated rows as the table grows.

Example:
  python benchmarks/tracker.py --rows 10000000 --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from rich.console import Console
from tensorflow_recommenders_addons import dynamic_embedding as de
from workloads import report
from workloads.resident_memory import resident_bytes
from workloads.rows import spread_keys

import adaptcp_tf as acp
from adaptcp_tf._src.ops.library import ops
from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.policy.solver import CostInputs, solve

_KEYS_PER_BATCH = 16_000  # distinct ids of a batch of 2,048 samples, rounded up
_MEASURED_BATCHES = 200
_ROWS_PER_UPSERT = 500_000
_REPEATS = 11
# A millisecond to write a thousand rows, ten to read them; a failure an hour.
_COSTS = CostInputs(
    write_secs_per_row=1e-6,
    read_secs_per_row=1e-5,
    interval_secs=10.0,
    mean_secs_between_failures=3600.0,
)
_SMALL = {"rows": 1_000_000, "dirty": 10_000}


def main() -> None:
    args = parse_arguments()
    status = Console(stderr=True)
    conditions = report.conditions(args)
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        status.print(f"tracker with {args.rows:,} rows")
        tracker = measure_tracker(args, Path(directory))
        status.print(f"checkpoints of {args.dirty:,} rows")
        growth = measure_growth(args, Path(directory), status)
    benchmark = {"benchmark": "tracker", "conditions": conditions, **tracker, **growth}
    tables = [
        report.table("Tracker", [tracker]),
        report.table(f"A checkpoint of {args.dirty:,} updated rows", growth["checkpoint"]),
    ]
    report.publish(benchmark, tables, args.json)


def measure_tracker(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Marks rows through the ops that bracket an update, without any update of a table between."""
    rng = np.random.default_rng(args.seed)
    keys = spread_keys(args.rows)
    table = de.get_variable("tracker_benchmark", dim=1, init_size=args.rows)
    group = ops.adaptcp_table_group(
        key_dtype=tf.int64, group_name="tracker_benchmark", shared_name="tracker_benchmark"
    )
    ops.adaptcp_attach_table(
        group,
        table.tables[0].resource_handle,
        tf.zeros([1]),
        table_index=0,
        table_name="tracker_benchmark",
    )
    for at in range(0, args.rows, _ROWS_PER_UPSERT):
        some = keys[at : at + _ROWS_PER_UPSERT]
        table.upsert(tf.constant(some), tf.zeros([len(some), 1]))

    batches = np.array_split(rng.permutation(keys), -(-args.rows // _KEYS_PER_BATCH))
    resident = resident_bytes()
    new = mark(group, batches)
    resident = resident_bytes() - resident
    updated = json.loads(ops.adaptcp_group_stats(group).numpy())
    ops.adaptcp_begin([group], updated["interval"], True, 2.0, 0.0, 16.0)
    ops.adaptcp_drain(group, str(directory), "tracker")
    ops.adaptcp_end_cut(group, True)
    saved = json.loads(ops.adaptcp_group_stats(group).numpy())

    batches = [
        rng.choice(keys, min(_KEYS_PER_BATCH, args.rows), replace=False, shuffle=False)
        for _ in range(_MEASURED_BATCHES)
    ]
    first = mark(group, batches)
    again = mark(group, batches)
    return {
        "rows": saved["rows"],
        "ns_per_key": first,
        "ns_per_key_already_marked": again,
        "ns_per_key_new_row": new,
        "bytes_per_row": saved["tracker_bytes"] / saved["rows"],
        "bytes_per_row_all_updated": updated["tracker_bytes"] / updated["rows"],
        "resident_bytes_per_row": resident / saved["rows"],
        **measure_solver(group),
    }


def measure_solver(group: tf.Tensor) -> dict[str, float]:
    """Milliseconds of a histogram of the rows' update rates, and of solving threshold and period."""
    histogram_ms, solve_ms = [], []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        rows, rate_sums = ops.adaptcp_rate_histogram(group)
        rates = RateHistogram.of_sums([(rows.numpy(), rate_sums.numpy())])
        measured = time.perf_counter()
        solve(_COSTS, rates)
        histogram_ms.append((measured - start) * 1e3)
        solve_ms.append((time.perf_counter() - measured) * 1e3)
    return {
        "histogram_ms": statistics.median(histogram_ms),
        "solve_ms": statistics.median(solve_ms),
    }


def mark(group: tf.Tensor, batches: list[np.ndarray]) -> float:
    """Brackets an update of each batch; returns the median of the batches' nanoseconds per key."""
    durations = []
    for batch in batches:
        keys = tf.constant(batch)
        start = time.perf_counter_ns()
        ops.adaptcp_before_update(group, keys)
        ops.adaptcp_after_update(group, keys)
        durations.append((time.perf_counter_ns() - start) / len(batch))
    return statistics.median(durations)


def measure_growth(args: argparse.Namespace, directory: Path, status: Console) -> dict[str, Any]:
    """Times checkpoints of a fixed number of updated rows of a small and a large table, in turns."""
    rng = np.random.default_rng(args.seed)
    keys = spread_keys(args.rows)
    sizes = (args.rows // 10, args.rows)
    contenders = []
    for rows in sizes:
        status.print(f"filling a table with {rows:,} rows")
        table = de.get_variable(f"growth_benchmark_{rows}", dim=args.dim, init_size=rows)
        manager = acp.CheckpointManager(
            str(directory / table.name),
            variables=[table],
            options=acp.CheckpointOptions(strategy="incremental", max_to_keep=2),
        )
        for at in range(0, rows, _ROWS_PER_UPSERT):
            upsert(table, keys[at : min(at + _ROWS_PER_UPSERT, rows)], rng)
        checkpoint_seconds(manager)
        contenders.append((table, manager, keys[:rows]))

    seconds: list[list[float]] = [[], []]
    for _ in range(_REPEATS):
        for (table, manager, held), durations in zip(contenders, seconds):
            upsert(table, rng.choice(held, args.dirty, replace=False, shuffle=False), rng)
            durations.append(checkpoint_seconds(manager))
    for _, manager, _ in contenders:
        manager.close()
    medians = [statistics.median(durations) for durations in seconds]
    return {
        "dirty_rows": args.dirty,
        "checkpoint": [{"rows": rows, "seconds": took} for rows, took in zip(sizes, medians)],
        "checkpoint_ratio": statistics.median(large / small for small, large in zip(*seconds)),
    }


def checkpoint_seconds(manager: acp.CheckpointManager) -> float:
    """Saves the next step; returns the seconds until it is durable."""
    start = time.perf_counter()
    manager.save((manager.latest_step() or 0) + 1)
    manager.wait()
    return time.perf_counter() - start


def upsert(table: de.Variable, keys: np.ndarray, rng: np.random.Generator) -> None:
    values = rng.random((len(keys), table.dim), dtype=np.float32)
    table.upsert(tf.constant(keys), tf.constant(values))


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the large table")
    parser.add_argument("--dirty", type=int, default=100_000, help="updated rows per checkpoint")
    parser.add_argument("--dim", type=int, default=16, help="length of the embedding vectors")
    parser.add_argument("--directory", help="where checkpoints go; default: the temporary folder")
    args = report.parse_or_small(parser, _SMALL)
    if not 0 < 10 * args.dirty <= args.rows:
        parser.error(
            "--dirty must be at most a tenth of --rows, the size of the small table. "
            f"Received: {args.dirty}, {args.rows}."
        )
    return args


if __name__ == "__main__":
    main()
