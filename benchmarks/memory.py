# SPDX-License-Identifier: Apache-2.0
"""Memory that saving and restoring take beyond tables and trackers, as the tables grow.

Each measurement has a process of its own, so that memory which one left with the allocator cannot
hide what another takes.

Example:
  python benchmarks/memory.py --rows 1000000,10000000 --json
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from workloads import memory_cases as cases
from workloads import report

_MIB = 1 << 20
_SAVING_LIMIT_MIB = 256
_RESTORING_LIMIT_MIB = 512
_SMALL = {"rows": [50_000, 200_000], "batch": 256, "steps": 20}


def main() -> None:
    args = parse_arguments()
    conditions = report.conditions(args)
    saving, restoring = [], []
    for rows in args.rows:
        sizes = cases.Sizes(rows, args.dim, args.batch, args.steps, args.seed)
        with tempfile.TemporaryDirectory(dir=args.directory) as directory:
            saving += compare_saving(sizes, Path(directory))
            restoring += compare_restoring(sizes, Path(directory))
    benchmark = {
        "benchmark": "memory",
        "conditions": conditions,
        "limits_mib": {"saving": _SAVING_LIMIT_MIB, "restoring": _RESTORING_LIMIT_MIB},
        "saving": saving,
        "restoring": restoring,
    }
    shown = [
        report.comparison(f"Saving, MiB: extra at most {_SAVING_LIMIT_MIB}", saving),
        report.comparison(f"Restoring, MiB: extra at most {_RESTORING_LIMIT_MIB}", restoring),
    ]
    report.publish(benchmark, shown, args.json)


def compare_saving(sizes: cases.Sizes, directory: Path) -> list[dict[str, Any]]:
    """One row a way to save; leaves the base in `directory`."""
    alone = in_new_process(cases.measure_training, sizes)
    results = []
    for number, case in enumerate(cases.SAVING):
        where = base_directory(directory) if case == cases.BASE else directory / str(number)
        measured = in_new_process(cases.measure_saving, sizes, case, where)
        extra = measured["peak"] - alone["peak"] - measured["tracker_growth"]
        results.append(
            {
                "case": f"{sizes.rows:,} rows: {case}",
                "rows": sizes.rows,
                "peak_mib": measured["peak"] / _MIB,
                "training_mib": alone["peak"] / _MIB,
                "tracker_growth_mib": measured["tracker_growth"] / _MIB,
                "extra_mib": extra / _MIB,
                "within_limit": extra <= _SAVING_LIMIT_MIB * _MIB,
                "tracker_mib": measured["tracker"] / _MIB,
                **{name: measured[name] for name in ("rows_saved", "rows_saved_on_update")},
                **{name: measured[name] for name in ("steps_meanwhile", "seconds", "method")},
            }
        )
    return results


def compare_restoring(sizes: cases.Sizes, directory: Path) -> list[dict[str, Any]]:
    """One row a size of the tables before the restore of the base in `directory`."""
    results = []
    for size in (cases.PRESIZED, cases.DEFAULT_SIZE):
        restored, inserted = (
            in_new_process(cases.measure_loading, sizes, how, size, base_directory(directory))
            for how in (cases.RESTORE, cases.UPSERT)
        )
        above = restored["peak"] - restored["kept"]
        upsert_above = inserted["peak"] - inserted["kept"]
        results.append(
            {
                "case": f"{sizes.rows:,} rows: {size}",
                "rows": sizes.rows,
                "peak_mib": restored["peak"] / _MIB,
                "kept_mib": restored["kept"] / _MIB,
                "peak_above_kept_mib": above / _MIB,
                "upsert_peak_above_kept_mib": upsert_above / _MIB,
                "extra_mib": (above - upsert_above) / _MIB,
                "within_limit": above - upsert_above <= _RESTORING_LIMIT_MIB * _MIB,
                "upsert_kept_mib": inserted["kept"] / _MIB,
                "tracker_mib": restored["tracker"] / _MIB,
                "seconds": restored["seconds"],
                "method": restored["method"],
            }
        )
    return results


def base_directory(directory: Path) -> Path:
    """Where the checkpoint that is restored lies."""
    return directory / "base"


def in_new_process(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Calls a function of `memory_cases` in a process that does nothing else."""
    words = [f"{a.rows:,} rows" if isinstance(a, cases.Sizes) else str(a) for a in arguments]
    Console(stderr=True).print(f"{measure.__name__}: {', '.join(words)}", highlight=False)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(measure, *arguments).result()


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    parser.add_argument(
        "--rows",
        type=lambda text: [int(number) for number in text.split(",")],
        default=[1_000_000, 10_000_000],
        help="comma-separated: rows of the table and of its two slot tables",
    )
    parser.add_argument("--dim", type=int, default=16, help="length of the embedding vectors")
    parser.add_argument("--batch", type=int, default=2048, help="samples a step, 26 ids each")
    parser.add_argument("--steps", type=int, default=30, help="steps before and after the cut")
    parser.add_argument("--directory", help="where checkpoints go; default: the temporary folder")
    args = report.parse_or_small(parser, _SMALL)
    if min(*args.rows, args.dim, args.batch, args.steps) < 1:
        parser.error(
            f"--rows, --dim, --batch and --steps must be positive. Received: {args.rows}, "
            f"{args.dim}, {args.batch}, {args.steps}."
        )
    return args


if __name__ == "__main__":
    main()
