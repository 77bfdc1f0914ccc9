# SPDX-License-Identifier: Apache-2.0
"""By how much each strategy slows training, from a checkpoint every 10,000 batches to every 100.

Strategies are simulated at the size of Criteo Terabyte, the published baselines as they are
described: a stop-and-copy snapshot, one stream to storage, one stream back, and training waits for a
checkpoint that takes longer than the interval. Ours skips the next one instead, as it does by
default. Nobody outside knows the
authors' storage, so its bandwidth is the one at which plain incremental loses what was published at
the shortest interval; all other figures follow.

Example:
  python benchmarks/frequency.py --plot out/frequency.png --json
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np
from rich.console import Console
from workloads import report
from workloads.plots import compare_frequencies

from adaptcp_tf import policies
from adaptcp_tf._src.simulator import RowLayout, Storage, ZipfPopulation, simulate

# Slow-down in percent at a checkpoint every 100 batches, as the authors of AdaptCP report it.
PUBLISHED = {"incremental": 74.9, "check_n_run": 92.6, "adaptive": 19.0}
# And how many times faster AdaptCP restores.
PUBLISHED_RESTORE = {"check_n_run": 9.41, "incremental_n": 12.70, "incremental": 13.62}
_CALIBRATED = "incremental"
_COPY_BYTES_PER_SEC = 1e9
_LOST_SHARE = 0.05
_MEAN_SECS_BETWEEN_FAILURES = 86_400.0
_SMALL = {"rows": 1_000_000, "batches": [1000, 100], "intervals": 40}


@dataclasses.dataclass(frozen=True)
class Contender:
    """A strategy and how it reaches storage.

    streams: files that it writes or reads at once.
    when_busy: whether training waits for a checkpoint that takes longer than the interval.
    """

    policy: policies.Policy
    streams: int = 1
    when_busy: str = "wait"


def contenders(args: argparse.Namespace) -> dict[str, Contender]:
    """The published baselines, and ours."""
    return {
        "full": Contender(policies.StopAndCopy(policies.Full())),
        "incremental": Contender(policies.StopAndCopy(policies.Incremental())),
        "incremental_n": Contender(policies.StopAndCopy(policies.IncrementalN(args.base_every))),
        "check_n_run": Contender(policies.CheckNRun()),
        "check_n_run_4bit": Contender(policies.CheckNRun(4, quantize_slots=True)),
        "adaptive": Contender(
            policies.Adaptive(mean_secs_between_failures=_MEAN_SECS_BETWEEN_FAILURES),
            args.streams,
            when_busy="skip",
        ),
    }


def measure(
    args: argparse.Namespace, contender: Contender, batches: int, bytes_per_sec: float
) -> dict[str, float]:
    """The second half of a run with a checkpoint every so many batches.

    Args:
        args: rows, intervals and the like.
        contender: the strategy.
        batches: per interval.
        bytes_per_sec: of one stream.
    """
    population = ZipfPopulation(
        int(args.rows), batches * args.batch * args.lookups, args.skew, seed=args.seed
    )
    write_secs_per_byte = 1 / (bytes_per_sec * contender.streams)
    storage = Storage(
        write_secs_per_byte=write_secs_per_byte,
        read_secs_per_byte=write_secs_per_byte,
        lost_secs_per_byte=_LOST_SHARE * write_secs_per_byte,
        copy_secs_per_byte=1 / (_COPY_BYTES_PER_SEC * args.shards),
    )
    interval_secs = batches * args.step_secs
    run = list(
        simulate(
            population.updates(args.intervals),
            contender.policy,
            layout=RowLayout.of_floats(args.dim, args.slots),
            interval_secs=interval_secs,
            storage=storage,
            weights=population.weights,
            when_busy=contender.when_busy,
        )
    )
    run = run[len(run) // 2 :]
    trained_secs = sum(one.interval_secs for one in run)
    lost_secs = sum(one.lost_secs for one in run)
    return {
        "batches_per_checkpoint": trained_secs / len(run) / args.step_secs,
        "bytes_per_checkpoint": float(np.mean([one.bytes for one in run])),
        "slowed_percent": 100 * lost_secs / (trained_secs + lost_secs),
        "restore_secs": float(np.mean([one.chain_bytes for one in run]) * write_secs_per_byte),
    }


def calibrate(args: argparse.Namespace) -> float:
    """Bytes per second of one stream at which plain incremental loses as much as published."""
    batches = min(args.batches)
    slowed = PUBLISHED[_CALIBRATED] / 100
    unlimited = measure(args, contenders(args)[_CALIBRATED], batches, float("inf"))
    # Training waits until what one interval updated is written: write_secs / interval_secs.
    write_secs = batches * args.step_secs / (1 - slowed)
    return unlimited["bytes_per_checkpoint"] / write_secs


def compare(args: argparse.Namespace, bytes_per_sec: float) -> list[dict[str, Any]]:
    """One row per interval and strategy."""
    status = Console(stderr=True)
    results = []
    for batches in sorted(args.batches, reverse=True):
        status.print(f"a checkpoint every {batches} batches")
        measured = {
            name: measure(args, contender, batches, bytes_per_sec)
            for name, contender in contenders(args).items()
        }
        ours = measured["adaptive"]
        for name, figures in measured.items():
            results.append(
                {
                    "batches": batches,
                    "strategy": name,
                    **figures,
                    "throughput_of_adaptive": (100 - ours["slowed_percent"])
                    / (100 - figures["slowed_percent"]),
                    "restore_of_adaptive": figures["restore_secs"] / ours["restore_secs"],
                }
            )
    return results


def main() -> None:
    args = parse_arguments()
    conditions = report.conditions(args)
    bytes_per_sec = calibrate(args)
    conditions["mib_per_sec_and_stream"] = round(bytes_per_sec / (1 << 20), 1)
    results = compare(args, bytes_per_sec)
    if args.plot:
        compare_frequencies(results, PUBLISHED, args.plot)
    benchmark = {
        "benchmark": "frequency",
        "conditions": conditions,
        "results": results,
        "published": {"slowed_percent": PUBLISHED, "restore_of_adaptive": PUBLISHED_RESTORE},
    }
    report.publish(
        benchmark, [report.table("Frequency", [shorten(row) for row in results])], args.json
    )


def shorten(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the results as the table shows it."""
    return {
        "batches": row["batches"],
        "strategy": row["strategy"],
        "taken_every": round(row["batches_per_checkpoint"]),
        "GiB": row["bytes_per_checkpoint"] / (1 << 30),
        "slowed_%": row["slowed_percent"],
        "adaptive_trains": row["throughput_of_adaptive"],
        "restore_s": row["restore_secs"],
        "adaptive_restores": row["restore_of_adaptive"],
    }


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    number = parser.add_argument
    number("--rows", type=float, default=880e6, help="rows of all tables")
    number("--skew", type=float, default=1.05, help="exponent of Zipf's law")
    number("--batch", type=int, default=2048, help="samples")
    number("--lookups", type=int, default=26, help="per sample")
    number("--step-secs", type=float, default=0.1, help="of one batch without checkpoints")
    number(
        "--batches",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[10_000, 5_000, 2_000, 1_000, 500, 200, 100],
        help="comma-separated: batches from one checkpoint to the next",
    )
    number("--intervals", type=int, default=120, help="checkpoints, of which half are measured")
    number("--base-every", type=int, default=50, help="of incremental_n")
    number("--streams", type=int, default=8, help="files that adaptive writes or reads at once")
    number("--shards", type=int, default=64, help="machines that copy a snapshot at once")
    number("--dim", type=int, default=16, help="length of the embedding vectors")
    number("--slots", type=int, default=2, help="slot tables beside the parameter")
    number("--plot", help="where to write a picture, as PNG")
    args = report.parse_or_small(parser, _SMALL)
    return args


if __name__ == "__main__":
    main()
