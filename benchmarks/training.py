# SPDX-License-Identifier: Apache-2.0
"""Throughput of `model.fit` under each checkpoint strategy, relative to no checkpoints at all.

Example:
  python benchmarks/training.py --strategies none,tracking,adaptive --intervals 100,10 --repeats 3
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from pathlib import Path

import tensorflow as tf
from rich.console import Console
from workloads import huge_pages, report
from workloads.throughput import (
    NONE,
    TRACKING,
    Contender,
    Repeated,
    Workload,
    compete,
    summarize,
    warmup_steps,
)

# Batches drawn ahead at most (545 kB each at batch 2048); longer runs see them again.
_MAX_POOL = 2000

_SMALL = {"rows": 50_000, "rounds": 1, "intervals": [20], "batch": 512}


def main() -> None:
    args = parse_arguments()
    huge_pages.use()
    status = Console(stderr=True)
    conditions = report.conditions(args)
    repeated: list[Repeated] = []
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory(dir=args.directory) as directory:
            contenders = run(args, Path(directory), status)
            repeated = repeated or [Repeated(one.strategy, one.interval) for one in contenders]
            for all_of_one, one in zip(repeated, contenders):
                all_of_one.add(one)
                one.close()
            del contenders, one
            tf.keras.backend.clear_session()
            gc.collect()
    results = [summarize(one, repeated[0], args.batch) for one in repeated]
    tables = [report.comparison("Throughput", results)]
    if args.profile:
        tables += [
            report.table(f"Checkpoints: {one.strategy}, interval {one.interval}", one.history())
            for one in repeated
            if one.history()
        ]
    benchmark = {"benchmark": "training", "conditions": conditions, "results": results}
    report.publish(benchmark, tables, args.json)


def run(args: argparse.Namespace, directory: Path, status: Console) -> list[Contender]:
    """Sets up the contenders, the one without checkpoints first, and lets them compete."""
    warmup = warmup_steps(args.intervals)
    total = warmup + 2 * args.rounds * args.steps
    status.print(f"drawing {min(total, _MAX_POOL)} batches")
    workload = Workload.draw(
        rows=args.rows,
        batch_size=args.batch,
        dim=args.dim,
        seed=args.seed,
        batches=min(total, _MAX_POOL),
        num_tables=args.tables,
    )
    entries = [(NONE, None)]
    for strategy in args.strategies:
        if strategy == TRACKING:
            entries.append((TRACKING, None))
        elif strategy != NONE:
            entries += [(strategy, interval) for interval in args.intervals]
    contenders = []
    for strategy, interval in entries:
        status.print(f"filling {args.rows:,} rows: {strategy} {interval or ''}")
        contenders.append(Contender(strategy, interval, workload, directory))
    compete(
        contenders, rounds=args.rounds, steps=args.steps, warmup=warmup, on_progress=status.print
    )
    return contenders


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    parser.add_argument(
        "--strategies",
        type=lambda text: text.split(","),
        default=["none", "tracking", "adaptive"],
        help="comma-separated: none (always run), tracking (tracked, never a checkpoint), full, "
        "incremental, differential, check_n_run, adaptive; with +prefetch behind it the input "
        "pipeline saves rows too",
    )
    parser.add_argument(
        "--intervals",
        type=lambda text: [int(number) for number in text.split(",")],
        default=[100],
        help="comma-separated: batches between checkpoints",
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="every contender trains twice in each"
    )
    parser.add_argument(
        "--repeats", type=int, default=1, help="do it all again as often, with new tables each time"
    )
    parser.add_argument(
        "--steps", type=int, help="batches of one turn; default: the longest interval"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows before training begins")
    parser.add_argument("--batch", type=int, default=2048, help="samples per batch")
    parser.add_argument("--tables", type=int, default=1, help="tables that share the 26 features")
    parser.add_argument("--dim", type=int, default=16, help="length of the embedding vectors")
    parser.add_argument("--directory", help="where checkpoints go; default: the temporary folder")
    parser.add_argument("--profile", action="store_true", help="list every measured checkpoint")
    args = report.parse_or_small(parser, _SMALL)
    if args.steps is None:
        args.steps = max(args.intervals)
    uneven = [interval for interval in args.intervals if args.steps % interval]
    if uneven:
        parser.error(
            f"--steps must be a multiple of every interval. Received: {args.steps}, {uneven}."
        )
    return args


if __name__ == "__main__":
    main()
