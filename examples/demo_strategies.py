# SPDX-License-Identifier: Apache-2.0
"""Second part of the demo: what checkpoints cost under each strategy, as a table and a picture."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from workloads import plots
from workloads.throughput import NONE, Contender, Workload, compete, summarize, warmup_steps

_STRATEGIES = (NONE, "full", "incremental", "differential", "check_n_run", "adaptive")
_DIM = 16
_MIB = 1 << 20


def run(args: argparse.Namespace, scratch: Path, console: Console) -> None:
    """Trains with every strategy in turns; prints the table, writes picture and figures."""
    with console.status("drawing the stream") as status:
        contenders = _train(args, scratch, status.update)
        results = [summarize(one, contenders[0], args.batch) for one in contenders]
        for contender, result in zip(contenders, results):
            status.update(f"restoring: {contender.strategy}")
            result["restore_seconds"] = contender.restore_seconds()
    console.print(_table(args, results))
    histories = {one.strategy: one.history() for one in contenders}
    plots.compare_strategies(results, histories, args.output / "strategies.png")
    (args.output / "strategies.json").write_text(json.dumps(results, indent=1), encoding="ascii")
    console.print(f"Picture: {args.output / 'strategies.png'}", soft_wrap=True)
    for contender in contenders:
        contender.close()


def _train(args: argparse.Namespace, scratch: Path, on_progress: Any) -> list[Contender]:
    warmup = warmup_steps([args.interval])
    workload = Workload.draw(
        rows=args.rows,
        batch_size=args.batch,
        dim=_DIM,
        seed=0,
        batches=warmup + 2 * args.rounds * args.steps,
    )
    contenders = []
    for strategy in _STRATEGIES:
        on_progress(f"filling tables with {args.rows:,} rows: {strategy}")
        interval = None if strategy == NONE else args.interval
        contenders.append(Contender(strategy, interval, workload, scratch))
    compete(
        contenders, rounds=args.rounds, steps=args.steps, warmup=warmup, on_progress=on_progress
    )
    return contenders


def _table(args: argparse.Namespace, results: list[dict[str, Any]]) -> Table:
    table = Table(
        title=f"{args.rows:,} rows before training, batch {args.batch:,}, "
        f"a checkpoint every {args.interval} steps",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("strategy", no_wrap=True)
    for name in ("samples/s", "of none", "stall ms", "max", "MiB each", "restore"):
        table.add_column(name, justify="right")
    for row in results:
        cells = [
            row["strategy"],
            f"{row['samples_per_second']:,.0f}",
            f"{row['ratio_to_none']:.0%}",
        ]
        if row["checkpoints"]:
            cells += [f"{row['stall_ms_per_checkpoint']:.2f}", f"{row['stall_ms_max']:.2f}"]
            cells += [f"{row['bytes_written'] / row['checkpoints'] / _MIB:,.1f}"]
            cells += [f"{row['restore_seconds']:.2f} s"]
        table.add_row(*cells)
    return table
