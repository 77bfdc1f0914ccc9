# SPDX-License-Identifier: Apache-2.0
r"""Training throughput on slow remote storage: ours, published baselines, and each idea taken away.

The storage has so much bandwidth a stream that plain incremental, which writes one stream, loses a
given share of its throughput at the shortest interval. Baselines work as their authors describe
them: training waits while rows are copied into memory, one stream writes them, and the next
checkpoint waits for that.

Example:
  python benchmarks/slow_storage.py --stream production --rows 4000000 --json
  python benchmarks/slow_storage.py --contenders none,incremental,check_n_run,adaptive --batch 128 \
      --intervals 10000,5000,2000,1000,500,200,100 --checkpoints 1 --plot out/curve.png
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from rich.console import Console
from workloads import huge_pages, plots, report, slow_store
from workloads.criteo_stream import ClickStream, CriteoStream
from workloads.production_stream import ProductionStream
from workloads.throughput import NONE, Contender, Repeated, Workload, compete, summarize

from adaptcp_tf import policies

_MIB = 1 << 20
_MAX_POOL_BYTES = 2 << 30
_CALIBRATED = "incremental"
_OURS = "adaptive"
_SMALL = {
    "rows": 20_000,
    "batch": 256,
    "intervals": [10],
    "checkpoints": 1,
    "rounds": 1,
    "contenders": [NONE, "incremental", "check_n_run", "adaptive"],
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A strategy and how its checkpoints reach storage.

    strategy: as `Contender` takes it; with "+prefetch" the input pipeline saves rows too.
    policy: takes the place of the strategy of that name.
    buffer: whether they go through an SSD buffer.
    streams: files that are written at once, into the buffer, or to storage if there is none.
    uploads: files that go from the buffer to storage at once.
    """

    strategy: str
    policy: policies.Policy | None = None
    buffer: bool = True
    streams: int = 4
    uploads: int = 8

    def options(self, buffer: Path) -> dict[str, Any]:
        """What the callback is given; `buffer` is the folder of the buffer."""
        options: dict[str, Any] = {"max_writers": self.streams}
        if self.policy is not None:
            options["strategy"] = self.policy
        if self.buffer:
            options |= {"local_dir": str(buffer), "upload_threads": self.uploads}
        return options


def entries() -> dict[str, Entry]:
    """All contenders by name; policies learn, so each run has its own."""
    incremental = policies.StopAndCopy(policies.Incremental())
    return {
        NONE: Entry(NONE),
        "incremental": Entry("incremental", incremental, buffer=False, streams=1),
        "check_n_run": Entry("check_n_run", buffer=False, streams=1),
        _OURS: Entry("adaptive+prefetch"),
        # Each idea of ours taken away.
        "no_buffer": Entry("adaptive+prefetch", buffer=False),
        "stop_and_copy": Entry("adaptive+prefetch", policies.StopAndCopy(policies.Adaptive())),
        "no_prefetch": Entry("adaptive"),
        "no_hot_cold": Entry("incremental+prefetch"),
        # The baselines, stop-and-copy as they are, with our writer and buffer.
        "fair_incremental": Entry("incremental", policies.StopAndCopy(policies.Incremental())),
        "fair_check_n_run": Entry("check_n_run"),
    }


class Bench:
    """Runs contenders at one interval after the other on storage of one speed.

    Args:
      args: the command line.
      scratch: where files go.
      status: is told what happens.
    """

    def __init__(self, args: argparse.Namespace, scratch: Path, status: Console):
        self._args = args
        self._scratch = scratch
        self._status = status
        self.stream_bytes_per_sec = args.stream_mib_per_sec * _MIB

    def run(self) -> list[dict[str, Any]]:
        """One row per interval and contender, the shortest interval first."""
        rows = []
        for interval in sorted(self._args.intervals):
            self._status.print(f"a checkpoint every {interval} batches")
            rows += self._run_at(interval)
        return rows

    def _run_at(self, interval: int) -> list[dict[str, Any]]:
        workload = self._draw(interval)
        known = entries()
        measured = {
            name: Repeated(known[name].strategy, interval) for name in self._args.contenders
        }
        for repeat in range(self._args.repeats):
            with tempfile.TemporaryDirectory(dir=self._scratch) as scratch:
                names = self._args.contenders[:: -1 if repeat % 2 else 1]
                contenders = self._set_up(names, interval, workload, Path(scratch))
                self._compete(interval, contenders)
                for name, contender in contenders.items():
                    measured[name].add(contender)
                    contender.close()
            del contenders, contender
            tf.keras.backend.clear_session()
            gc.collect()
        return [self._row(interval, name, measured) for name in measured]

    def _set_up(
        self, names: Sequence[str], interval: int, workload: Workload, scratch: Path
    ) -> dict[str, Contender]:
        """Contenders with new tables, warmed up."""
        args = self._args
        known = entries()
        slow_store.configure()
        contenders = {}
        for name in names:
            self._status.print(f"filling {args.rows:,} rows: {name}")
            entry = known[name]
            contenders[name] = Contender(
                entry.strategy,
                None if entry.strategy == NONE else interval,
                workload,
                slow_store.url(scratch / "remote"),
                name=name,
                options=entry.options(scratch / "buffer" / name),
            )
        for contender in contenders.values():
            self._status.print(f"warm-up: {contender.name}")
            contender.warm_up(2 * interval)
        return contenders

    def _compete(self, interval: int, contenders: dict[str, Contender]) -> None:
        args = self._args
        if not self.stream_bytes_per_sec:
            self.stream_bytes_per_sec = self._calibrate(contenders, interval)
        slow_store.configure(
            stream_bytes_per_sec=self.stream_bytes_per_sec, latency_secs=args.latency_ms / 1e3
        )
        # A turn begins and ends with a checkpoint. What the first one leaves to do in the background
        # falls into the time measured, what the last one leaves does not.
        compete(
            list(contenders.values()),
            rounds=args.rounds,
            steps=args.checkpoints * interval,
            warmup=0,
            lead_in=interval,
            on_progress=self._status.print,
        )

    def _draw(self, interval: int) -> Workload:
        args = self._args
        steps = 2 * interval + 2 * args.rounds * (1 + args.checkpoints) * interval
        stream = make_stream(args)
        batch = stream.batch(0)
        most = _MAX_POOL_BYTES // sum(part.nbytes for part in batch)
        self._status.print(f"drawing {min(steps, most):,} of {steps:,} batches")
        return Workload.draw(rows=args.rows, dim=args.dim, stream=stream, batches=min(steps, most))

    def _calibrate(self, contenders: dict[str, Contender], interval: int) -> float:
        """Bytes per second of one stream at which the calibrated baseline loses so much."""
        baseline, free = contenders[_CALIBRATED], contenders[NONE]
        for contender in (free, baseline):
            contender.start_round()
            contender.run(interval, lead_in=interval)
        train_secs = sum(free.rounds[-1].step_seconds)
        written = baseline.history()[-1]["bytes"]
        for contender in (free, baseline):
            contender.forget_rounds()
        # Writing takes longer than training an interval, so an interval lasts as long as a write.
        return written * (1 - self._args.lost) / train_secs

    def _row(self, interval: int, name: str, measured: dict[str, Repeated]) -> dict[str, Any]:
        contender = measured[name]
        figures = summarize(contender, measured[NONE], self._args.batch)
        ours = summarize(measured[_OURS], measured[NONE], self._args.batch)
        history = contender.history()
        uploaded = [one["seconds_to_uploaded"] for one in history if one["seconds_to_uploaded"]]
        return {
            "contender": name,
            "interval": interval,
            "samples_per_second": figures["samples_per_second"],
            "ratio_to_none": figures["ratio_to_none"],
            "ratio_to_none_lowest": figures["ratio_to_none_lowest"],
            "ratio_to_none_highest": figures["ratio_to_none_highest"],
            "lost_percent": 100 * (1 - figures["ratio_to_none"]),
            "cpu_ratio_to_none": figures["cpu_ratio_to_none"],
            "adaptive_is_faster_by": ours["samples_per_second"] / figures["samples_per_second"],
            "stall_ms_per_checkpoint": figures["stall_ms_per_checkpoint"],
            "stall_ms_max": figures["stall_ms_max"],
            "checkpoints": figures["checkpoints"],
            "not_uploaded": contender.superseded,
            "bytes_per_checkpoint": figures["bytes_written"] / max(len(history), 1),
            "secs_to_storage": statistics.median(uploaded) if uploaded else None,
            "share_saved_on_update": figures["share_saved_on_update"],
        }


def make_stream(args: argparse.Namespace) -> ClickStream:
    """The stream of the command line."""
    if args.stream == "production":
        return ProductionStream(args.rows, args.batch, args.seed)
    return CriteoStream(args.batch, args.seed)


def main() -> None:
    args = parse_arguments()
    huge_pages.use()
    conditions = report.conditions(args)
    with tempfile.TemporaryDirectory(dir=args.directory) as scratch:
        bench = Bench(args, Path(scratch), Console(stderr=True))
        results = bench.run()
    conditions["stream_mib_per_sec"] = bench.stream_bytes_per_sec / _MIB
    if args.plot:
        plots.slow_storage(results, args.plot)
    tables = [
        report.comparison(
            f"{args.stream}, a checkpoint every {interval} batches",
            [row for row in results if row["interval"] == interval],
        )
        for interval in sorted(args.intervals)
    ]
    benchmark = {"benchmark": "slow_storage", "conditions": conditions, "results": results}
    report.publish(benchmark, tables, args.json)


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    known = list(entries())
    number = parser.add_argument
    number(
        "--contenders",
        type=lambda text: text.split(","),
        default=known,
        help=f"comma-separated: {', '.join(known)}",
    )
    number(
        "--intervals",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[100],
        help="comma-separated: batches from one checkpoint to the next",
    )
    number("--checkpoints", type=int, default=4, help="measured in each turn")
    number("--rounds", type=int, default=2, help="every contender trains twice in each")
    number(
        "--repeats",
        type=int,
        default=1,
        help="do it all again as often, with new tables, set up in the other order every other time",
    )
    number("--stream", choices=("criteo", "production"), default="criteo")
    number("--rows", type=int, default=1_000_000, help="rows before training begins")
    number("--batch", type=int, default=2048, help="samples per batch")
    number("--dim", type=int, default=16, help="length of the embedding vectors")
    number(
        "--stream-mib-per-sec",
        type=float,
        default=0.0,
        help="bandwidth of one stream to storage; default: so that incremental loses --lost",
    )
    number("--lost", type=float, default=0.75, help="share of throughput, at the shortest interval")
    number("--latency-ms", type=float, default=10.0, help="of each request to storage")
    number("--directory", help="where files go; default: the temporary folder")
    number("--plot", help="where to write a picture, as PNG")
    args = report.parse_or_small(parser, _SMALL)
    needed = {NONE, _OURS} | (set() if args.stream_mib_per_sec else {_CALIBRATED})
    if set(args.contenders) - set(known) or needed - set(args.contenders):
        parser.error(
            f"--contenders must be some of {', '.join(known)}, with {', '.join(sorted(needed))} "
            f"among them. Received: {', '.join(args.contenders)}."
        )
    if not 0 < args.lost < 1:
        parser.error(f"--lost must be above 0 and below 1. Received: {args.lost}.")
    return args


if __name__ == "__main__":
    main()
