# SPDX-License-Identifier: Apache-2.0
"""`adaptcp simulate`: what each strategy would write, read and cost, for a table of any size."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from adaptcp_tf import errors
from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.policy import STRATEGIES, CheckNRun, Policy, StopAndCopy, make_policy
from adaptcp_tf._src.simulator import (
    RowLayout,
    SimulatedCheckpoint,
    Storage,
    ZipfPopulation,
    simulate,
)

_MIB = float(1 << 20)
_GIB = float(1 << 30)
_HOUR = 3600.0
# Update rates settle within about two half-lives.
_WARMUP_INTERVALS = 32

_COLUMNS = (
    "\nbases",
    "written\nGiB",
    "\nsecs",
    "restored\nGiB",
    "\nsecs",
    "slowed\n%",
    "lost\n%",
    "hot from\nrate",
)

_DESCRIPTION = """Compares strategies without a table: only which rows are updated counts.

Rows follow Zipf's law (--rows, --updates, --skew), or come from --trace: a text
file with a line per interval, the numbers of the rows that it updates, from 0,
separated by spaces.

Example:
  adaptcp simulate --rows 1e10 --updates 5e7 --shards 64 --interval-secs 600
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser(
        "simulate",
        help="what each strategy would write, read and cost",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_run)
    number = parser.add_argument
    number("--trace", help="file of updates instead of --rows, --updates and --skew")
    number("--rows", type=float, default=1e7, help="rows of the table (default: 10 million)")
    number("--updates", type=float, default=5e6, help="lookups trained on per interval")
    number("--skew", type=float, default=1.05, help="exponent of Zipf's law; 0: all rows alike")
    number("--intervals", type=int, default=200, help="checkpoints to simulate")
    number("--interval-secs", type=float, default=600.0, help="training between two checkpoints")
    number("--strategies", default="full,incremental_n,differential,adaptive", help="with commas")
    number("--base-every", type=int, default=50, help="checkpoints per base; 0: strategy's choice")
    number("--dim", type=int, default=16, help="float32 values of an embedding vector")
    number("--slots", type=int, default=2, help="optimizer slots of the same size")
    number("--shards", type=int, default=1, help="machines that write and read at once")
    number("--streams", type=int, default=1, help="files that a shard writes or reads at once")
    number("--write-mib-per-sec", type=float, default=200.0, help="to storage, per stream")
    number("--read-mib-per-sec", type=float, default=200.0, help="from storage, per stream")
    number("--copy-mib-per-sec", type=float, default=1000.0, help="of stop-and-copy, per shard")
    number(
        "--lost-share",
        type=float,
        default=0.05,
        help="part of the writing time by which training gets longer; 1: it waits for all of it",
    )
    number("--bits", type=int, choices=(2, 3, 4, 8), help="check_n_run quantises rows and slots")
    number(
        "--as-published",
        action="store_true",
        help="all but adaptive stop and copy, write and read one stream a shard, and wait for it",
    )
    number("--mtbf-hours", type=float, default=24.0, help="mean time between failures")
    number("--seed", type=int, default=0, help="of the random updates")
    number("--json", action="store_true", help="print JSON instead of a table")


def _run(args: argparse.Namespace) -> int:
    _check(args)
    names = args.strategies.split(",")
    total = None if args.trace else args.intervals * len(names)
    counts = itertools.count(1)
    with terminal.progress("simulating", of="checkpoints") as watch:
        results = [_simulate(args, name, lambda: watch(next(counts), total)) for name in names]
    if args.json:
        terminal.print_json({"arguments": _arguments(args), "results": results})
    else:
        _print(results)
    return 0


def _check(args: argparse.Namespace) -> None:
    unknown = sorted(set(args.strategies.split(",")) - set(STRATEGIES))
    if unknown:
        raise errors.InvalidOptionError(
            f"Invalid value for --strategies. Received: {', '.join(unknown)}. Expected: some of "
            f"{', '.join(STRATEGIES)}."
        )
    positive = ("rows", "updates", "intervals", "interval_secs", "dim", "shards", "streams")
    rates = ("write_mib_per_sec", "read_mib_per_sec", "copy_mib_per_sec")
    for name in (*positive, *rates, "mtbf_hours"):
        value = getattr(args, name)
        if not 0 < value < math.inf:
            raise errors.InvalidOptionError(
                f"Invalid value for --{name.replace('_', '-')}. Received: {value}. Expected: a "
                "positive number."
            )
    if not 0 <= args.lost_share <= 1 or args.slots < 0 or args.base_every < 0:
        raise errors.InvalidOptionError(
            f"Invalid value. Received: --lost-share {args.lost_share}, --slots {args.slots}, "
            f"--base-every {args.base_every}. Expected: a share from 0 to 1, and no negative number."
        )


def _simulate(args: argparse.Namespace, name: str, watch: Callable[[], None]) -> dict[str, Any]:
    published = args.as_published and name != "adaptive"
    mib = _MIB * args.shards * (1 if published else args.streams)
    write_secs_per_byte = 1 / (args.write_mib_per_sec * mib)
    storage = Storage(
        write_secs_per_byte=write_secs_per_byte,
        read_secs_per_byte=1 / (args.read_mib_per_sec * mib),
        lost_secs_per_byte=write_secs_per_byte * args.lost_share,
        copy_secs_per_byte=1 / (args.copy_mib_per_sec * _MIB * args.shards),
    )
    updates, weights = _updates(args)
    policy = _policy(args, name)
    if published:
        policy = StopAndCopy(policy)
    checkpoints = []
    for checkpoint in simulate(
        updates,
        policy,
        layout=RowLayout.of_floats(args.dim, args.slots),
        interval_secs=args.interval_secs,
        storage=storage,
        weights=weights,
        when_busy="wait" if published else "skip",
    ):
        checkpoints.append(checkpoint)
        watch()
    return _summarize(args, name, checkpoints, storage)


def _policy(args: argparse.Namespace, name: str) -> Policy:
    if name == "check_n_run":
        return CheckNRun(args.bits, quantize_slots=True)
    return make_policy(
        name,
        hot_threshold=None,
        hysteresis=0.1,
        # Incremental with bases is incremental_n.
        base_every=None if name == "incremental" else args.base_every or None,
        mean_secs_between_failures=args.mtbf_hours * _HOUR,
    )


def _updates(args: argparse.Namespace) -> tuple[Iterable[np.ndarray], np.ndarray | None]:
    if args.trace:
        return _read_trace(args.trace), None
    population = ZipfPopulation(int(args.rows), args.updates, args.skew, seed=args.seed)
    return population.updates(args.intervals), population.weights


def _read_trace(path: str) -> Iterator[np.ndarray]:
    with Path(path).open(encoding="ascii") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                rows = np.array(line.split(), np.int64)
            except ValueError:
                rows = np.array([-1])
            if len(rows) and rows.min() < 0:
                raise errors.InvalidOptionError(
                    f"{path}, line {number}: expected numbers of rows, from 0, separated by spaces. "
                    f"Received: {line[:60]!r}."
                )
            yield rows


def _summarize(
    args: argparse.Namespace,
    name: str,
    checkpoints: Sequence[SimulatedCheckpoint],
    storage: Storage,
) -> dict[str, Any]:
    if not checkpoints:
        raise errors.InvalidOptionError(f"{args.trace}: there is no interval in it.")
    counted = checkpoints[min(_WARMUP_INTERVALS, len(checkpoints) // 2) :]
    bytes_per_checkpoint = float(np.mean([one.bytes for one in counted]))
    restore_bytes = float(np.mean([one.chain_bytes for one in counted]))
    restore_secs = restore_bytes * storage.read_secs_per_byte
    lost_secs = float(np.mean([one.lost_secs for one in counted]))
    # A failure also loses what was trained since the last checkpoint: half an interval.
    elapsed_secs = lost_secs + float(np.mean([one.interval_secs for one in counted]))
    failures = elapsed_secs / (args.mtbf_hours * _HOUR)
    failed_secs = failures * (restore_secs + elapsed_secs / 2)
    deltas = [one.hot_threshold for one in counted if not one.base]
    return {
        "strategy": name,
        "checkpoints": len(counted),
        "bases": sum(one.base for one in counted),
        "bytes_per_checkpoint": bytes_per_checkpoint,
        "write_secs": bytes_per_checkpoint * storage.write_secs_per_byte,
        "restore_bytes": restore_bytes,
        "restore_secs": restore_secs,
        "training_slowed_percent": 100 * lost_secs / elapsed_secs,
        "training_lost_percent": 100 * (lost_secs + failed_secs) / (elapsed_secs + failed_secs),
        "hot_threshold": deltas[-1] if deltas else None,
        "rows": counted[-1].rows_live,
    }


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if name not in ("run", "verb")}


def _print(results: Sequence[dict[str, Any]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("\nstrategy", no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for row in results:
        threshold = row["hot_threshold"]
        table.add_row(
            row["strategy"],
            f"{row['bases']}/{row['checkpoints']}",
            _short(row["bytes_per_checkpoint"] / _GIB),
            _short(row["write_secs"]),
            _short(row["restore_bytes"] / _GIB),
            _short(row["restore_secs"]),
            f"{row['training_slowed_percent']:.1f}",
            f"{row['training_lost_percent']:.1f}",
            "-" if threshold is None or threshold > 1 else f"{threshold:.2f}",
        )
    console = Console()
    console.print(table)
    console.print(
        "written: per checkpoint; restored: after a failure, on average.\n"
        "slowed: by writing; lost: to failures too; rate: updates per interval.",
        highlight=False,
    )


def _short(value: float) -> str:
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"
