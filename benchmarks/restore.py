# SPDX-License-Identifier: Apache-2.0
"""Seconds to load the same rows into an empty table of TFRA's default size: our restore, and peers.

With --remote: seconds of a restore from slow storage, of a model that was checkpointed by several
strategies: ours, ours with one idea less, and the published baselines, each read by one stream.

Peers: `tfra` is TFRA's own load of its own files; `upsert` one bare insertion of rows that are in
memory already, which no restore into this table can beat by much.

Example:
  python benchmarks/restore.py --rows 3000000 --dim 16 --peers tfra,upsert --json
  python benchmarks/restore.py --remote --stream-mib-per-sec 7 --latency-ms 10 --json
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from rich.console import Console
from tensorflow_recommenders_addons import dynamic_embedding as de
from workloads import remote_restore, report

import adaptcp_tf as acp

OURS = "adaptcp"
_PEERS = ("tfra", "upsert")
_POSITIVE = {
    *("rows", "dim", "rounds", "threads", "read_threads", "stream_mib_per_sec"),
    *("intervals", "batches", "batch", "base_every"),
}
_SMALL = {"rows": 100_000, "rounds": 2, "intervals": 7, "base_every": 4}
# With --remote: what a table holds before training, and how often ours is restored.
_REMOTE = {"rows": 100_000, "rounds": 3}
# In JSON only: the table would be too wide.
_NOT_SHOWN = ("chain", "segments", "requests", "seconds_lowest", "seconds_highest")
_LOCAL = {"rows": 3_000_000, "rounds": 5}


def main() -> None:
    args = parse_arguments()
    conditions = report.conditions(args)
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        if args.remote:
            status = Console(stderr=True)
            results = remote_restore.measure(args, Path(directory), status.print)
        else:
            results = summarize(args, measure(args, Path(directory)))
    title = f"{args.rows:,} rows"
    if args.remote:
        title += f", then {args.intervals} checkpoints; {args.stream_mib_per_sec:g} MiB/s a stream"
    benchmark = {"benchmark": "restore", "conditions": conditions, "results": results}
    shown = [{key: row[key] for key in row if key not in _NOT_SHOWN} for row in results]
    report.publish(benchmark, [report.table(title, shown)], args.json)


def measure(args: argparse.Namespace, directory: Path) -> dict[str, list[float]]:
    """Loads the rows with each contender in turns; returns its seconds, one a round."""
    status = Console(stderr=True)
    status.print(f"saving {args.rows:,} rows")
    keys, rows = make_rows(args)
    table = new_table(args)
    table.upsert(keys, rows)
    manager = acp.CheckpointManager(str(directory / OURS), variables=[table])
    manager.save(1)
    manager.close()
    table.save_to_file_system(dirpath=str(directory / "tfra"))
    del table

    contenders: dict[str, Callable[[de.Variable], float]] = {
        OURS: lambda table: restore(table, directory / OURS, args.threads),
        "tfra": lambda table: load(table, directory / "tfra"),
        "upsert": lambda table: upsert(table, keys, rows),
    }
    seconds: dict[str, list[float]] = {name: [] for name in (OURS, *args.peers)}
    for number in range(1, args.rounds + 1):
        status.print(f"round {number} of {args.rounds}")
        for name, durations in seconds.items():
            gc.collect()
            table = new_table(args)
            durations.append(contenders[name](table))
            if int(table.size()) != args.rows:
                raise RuntimeError(f"{name} loaded {int(table.size())} rows of {args.rows}")
            del table
    return seconds


def new_table(args: argparse.Namespace) -> de.Variable:
    """An empty table of TFRA's default size; always of the same name."""
    tf.keras.backend.clear_session()
    return de.get_variable("restore_benchmark", dim=args.dim)


def make_rows(args: argparse.Namespace) -> tuple[tf.Tensor, tf.Tensor]:
    """Distinct keys [n] int64 all over their range, and random rows [n, dim] float32."""
    numbers = np.arange(1, args.rows + 1, dtype=np.uint64)
    keys = (numbers * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    rows = np.random.default_rng(args.seed).random((args.rows, args.dim), dtype=np.float32)
    return tf.constant(keys), tf.constant(rows)


def restore(table: de.Variable, directory: Path, threads: int) -> float:
    options = acp.CheckpointOptions(restore_threads=threads)
    manager = acp.CheckpointManager(str(directory), variables=[table], options=options)
    start = time.perf_counter()
    manager.restore()
    seconds = time.perf_counter() - start
    manager.close()
    return seconds


def load(table: de.Variable, directory: Path) -> float:
    start = time.perf_counter()
    table.load_from_file_system(dirpath=str(directory))
    return time.perf_counter() - start


def upsert(table: de.Variable, keys: tf.Tensor, rows: tf.Tensor) -> float:
    start = time.perf_counter()
    table.upsert(keys, rows)
    return time.perf_counter() - start


def summarize(args: argparse.Namespace, seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """One row a contender; ratios are taken within a round, since machines drift."""
    ours = seconds[OURS]
    results = []
    for name, durations in seconds.items():
        ratios = [theirs / mine for theirs, mine in zip(durations, ours)]
        results.append(
            {
                "contender": name,
                "seconds": statistics.median(durations),
                "seconds_lowest": min(durations),
                "seconds_highest": max(durations),
                "ratio": statistics.median(ratios),
                "mib_per_second": args.rows * args.dim * 4 / statistics.median(durations) / 2**20,
            }
        )
    return results


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    parser.add_argument("--rows", type=int, help=_defaults("rows"))
    parser.add_argument("--dim", type=int, default=16, help="length of the embedding vectors")
    parser.add_argument(
        "--peers",
        type=lambda text: text.split(","),
        default=list(_PEERS),
        help=f"comma-separated: {', '.join(_PEERS)}",
    )
    parser.add_argument("--rounds", type=int, help=_defaults("rounds"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--directory", help="where files go; default: the temporary folder")
    add_remote_arguments(parser.add_argument_group("with --remote"))
    args = report.parse_or_small(parser, _SMALL)
    for name, default in (_REMOTE if args.remote else _LOCAL).items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    numbers = {name: value for name, value in vars(args).items() if name in _POSITIVE}
    if set(args.peers) - set(_PEERS) or min(numbers.values()) <= 0 or args.latency_ms < 0:
        parser.error(
            f"--peers must be some of {', '.join(_PEERS)}, and numbers positive. Received: "
            f"{args.peers}, latency {args.latency_ms} ms, {numbers}."
        )
    return args


def add_remote_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--remote", action="store_true", help="restores from slow storage instead of local files"
    )
    parser.add_argument("--stream-mib-per-sec", type=float, default=7.0, help="of each read")
    parser.add_argument("--latency-ms", type=float, default=10.0, help="of each request")
    parser.add_argument("--read-threads", type=int, default=32, help="streams of our restore")
    parser.add_argument("--intervals", type=int, default=31, help="checkpoints after the first")
    parser.add_argument("--batches", type=int, default=1, help="of an interval")
    parser.add_argument("--batch", type=int, default=2048, help="samples of a batch")
    parser.add_argument("--base-every", type=int, default=16, help="of incremental_n")
    parser.add_argument("--hot-threshold", type=float, default=0.2, help="of our chain")


def _defaults(name: str) -> str:
    return f"default: {_LOCAL[name]:,}; with --remote {_REMOTE[name]:,}"


if __name__ == "__main__":
    main()
