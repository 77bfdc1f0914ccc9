# SPDX-License-Identifier: Apache-2.0
"""What each strategy writes, and what a restore reads, on the same stream of updates.

The strategies are simulated: the rows of each checkpoint are exactly those that the engine would
write. Losses are in rows: rows written, plus rho times the rows that a restore reads, averaged over
the checkpoints it may start from.

Example:
  python benchmarks/volume.py --streams criteo,drifting --periods 10,50 --json
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from workloads import report, streams
from workloads.plots import compare_volumes

from adaptcp_tf import cost_model, policies
from adaptcp_tf._src.simulator import RowLayout, SimulatedCheckpoint, Storage, simulate

# Rates need some history before strategies can be compared.
_MIN_WARMUP = 64
_MEASURED_PERIODS = 2
_INTERVAL_SECS = 10.0
_STORAGE = Storage(write_secs_per_byte=1e-8, read_secs_per_byte=1e-8, lost_secs_per_byte=1e-9)
_THRESHOLDS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 2.0)
_PRESETS = {
    # A quick look.
    "small": {"streams": ["iid", "drifting"], "periods": [10]},
    # The public setting of IncrCP (PVLDB 18): a checkpoint every 10 batches, a base every 100.
    "incrcp": {"streams": ["criteo"], "periods": [10]},
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One stream at one base period.

    period: a base every so many checkpoints.
    rho: cost of reading a row copy, times the restores per base period, over that of writing one.
    """

    stream: str
    period: int
    rho: float
    layout: RowLayout
    updates: Sequence[np.ndarray]

    @property
    def warmup(self) -> int:
        """Checkpoints before those that count: whole periods."""
        return warmup_of(self.period)

    def run(self, policy: policies.Policy) -> list[SimulatedCheckpoint]:
        """The checkpoints that count."""
        run = simulate(
            self.updates,
            policy,
            layout=self.layout,
            interval_secs=_INTERVAL_SECS,
            storage=_STORAGE,
        )
        return list(run)[self.warmup :]

    def adaptive(self) -> policies.Adaptive:
        """AdaptCP's strategy in a run whose measured costs amount to `rho`."""
        restore_secs = self.period * _INTERVAL_SECS * _STORAGE.read_secs_per_byte
        return policies.Adaptive(
            base_every=self.period,
            mean_secs_between_failures=restore_secs / (self.rho * _STORAGE.lost_secs_per_byte),
        )

    def loss(self, checkpoints: Sequence[SimulatedCheckpoint]) -> float:
        """Rows lost per base period, the base itself apart."""
        deltas = [one for one in checkpoints if not one.base]
        written = sum(one.rows_hot + one.rows_cold for one in deltas)
        base_rows = [one.chain_rows for one in checkpoints if one.base]
        read = sum(one.chain_rows for one in deltas) - np.mean(base_rows) * len(deltas)
        periods = len(deltas) / (self.period - 1)
        return written / periods + self.rho * read / len(deltas)


def warmup_of(period: int) -> int:
    """Whole periods that give rates their history."""
    return -(-_MIN_WARMUP // period) * period


def measure(setting: Setting) -> list[dict[str, Any]]:
    """One row per strategy."""
    contenders = {
        "full": policies.Full(),
        "incremental_n": policies.IncrementalN(setting.period),
        "differential": policies.Differential(setting.period),
        "check_n_run": policies.CheckNRun(),
        "check_n_run_4bit": policies.CheckNRun(4, quantize_slots=True),
        "adaptive": setting.adaptive(),
    }
    runs = {name: setting.run(policy) for name, policy in contenders.items()}
    hindsight = best_in_hindsight(setting)
    return [
        summarize(setting, name, runs[name], contenders[name], hindsight) for name in contenders
    ]


def best_in_hindsight(setting: Setting) -> float:
    """The least loss of any fixed threshold, chosen for each half of the checkpoints anew."""
    halves = []
    for threshold in _THRESHOLDS:
        policy = FixedThreshold(threshold, setting.period)
        checkpoints = setting.run(policy)
        middle = len(checkpoints) // 2
        halves.append((setting.loss(checkpoints[:middle]), setting.loss(checkpoints[middle:])))
    return float(np.mean([min(first) for first in zip(*halves)]))


class FixedThreshold(policies.Adaptive):
    """Adaptive with a threshold that may also lie above every rate."""

    def __init__(self, threshold: float, period: int):
        super().__init__(threshold, hysteresis=0.0, base_every=period)


def summarize(
    setting: Setting,
    name: str,
    checkpoints: list[SimulatedCheckpoint],
    policy: policies.Policy,
    hindsight: float,
) -> dict[str, Any]:
    """The figures of one strategy."""
    deltas = [one for one in checkpoints if not one.base]
    # Check-N-Run has a base period of its own.
    comparable = deltas and not isinstance(policy, policies.CheckNRun)
    loss = setting.loss(checkpoints) if comparable else None
    return {
        "stream": setting.stream,
        "period": setting.period,
        "strategy": name,
        "bytes_written": sum(one.bytes for one in checkpoints),
        "bytes_read_at_restore": float(np.mean([one.chain_bytes for one in checkpoints])),
        "rows_hot": sum(one.rows_hot for one in deltas),
        "rows_cold": sum(one.rows_cold for one in deltas),
        "hot_threshold": None if not deltas else deltas[-1].hot_threshold,
        "loss": loss,
        "loss_to_hindsight": None if loss is None else loss / hindsight,
        "loss_to_model": None if loss is None else loss_to_model(setting, name, loss, policy),
    }


def loss_to_model(
    setting: Setting, name: str, loss: float, policy: policies.Policy
) -> float | None:
    """Loss over the cost model's prediction; None for streams whose rates nobody knows."""
    if setting.stream != "iid":
        return None
    rates = streams.iid_rates(seed=0)
    threshold = {"incremental_n": 2.0, "differential": 0.0}.get(name)
    if threshold is None:
        threshold = policy.decide().hot_threshold
    predicted = cost_model.hybrid_cost(
        rates, np.ones_like(rates), threshold, setting.period - 1, 1.0, setting.rho
    )
    return loss / predicted.total


def main() -> None:
    args = parse_arguments()
    status = Console(stderr=True)
    conditions = report.conditions(args)
    results = []
    for name in args.streams:
        for period in args.periods:
            status.print(f"{name}, a base every {period} checkpoints")
            intervals = warmup_of(period) + _MEASURED_PERIODS * period
            updates = streams.make(name, intervals, args.seed)
            setting = Setting(
                name, period, args.rho, RowLayout.of_floats(args.dim, args.slots), updates
            )
            results += measure(setting)
    if args.plot:
        compare_volumes(results, args.plot)
    benchmark = {"benchmark": "volume", "conditions": conditions, "results": results}
    report.publish(
        benchmark, [report.table("Volume", [shorten(row) for row in results])], args.json
    )


def shorten(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the results as the table shows it."""
    deltas = row["rows_hot"] + row["rows_cold"]
    return {
        "stream": row["stream"],
        "period": row["period"],
        "strategy": row["strategy"],
        "MiB_written": row["bytes_written"] / (1 << 20),
        "MiB_read": row["bytes_read_at_restore"] / (1 << 20),
        "hot_share": row["rows_hot"] / deltas if deltas else None,
        "threshold": row["hot_threshold"],
        "to_hindsight": row["loss_to_hindsight"],
        "to_model": row["loss_to_model"],
    }


def parse_arguments() -> argparse.Namespace:
    parser = report.argument_parser(__doc__)
    parser.add_argument(
        "--streams",
        type=lambda text: text.split(","),
        default=list(streams.NAMES),
        help=f"comma-separated: {', '.join(streams.NAMES)}",
    )
    parser.add_argument(
        "--periods",
        type=lambda text: [int(number) for number in text.split(",")],
        default=[10, 50, 100],
        help="comma-separated: checkpoints from one base to the next, at least 3",
    )
    parser.add_argument(
        "--rho", type=float, default=1.0, help="read cost over write cost, times restores per base"
    )
    parser.add_argument("--dim", type=int, default=16, help="length of the embedding vectors")
    parser.add_argument("--slots", type=int, default=2, help="slot tables beside the parameter")
    parser.add_argument("--plot", help="where to write a picture, as PNG")
    parser.add_argument("--preset", choices=_PRESETS, help=f"instead of --streams: {_PRESETS}")
    args = parser.parse_args()
    vars(args).update(_PRESETS.get(args.preset, {}))
    unknown = sorted(set(args.streams) - set(streams.NAMES))
    if unknown or min(args.periods) < 3:
        parser.error(
            f"--streams must be some of {', '.join(streams.NAMES)} and --periods at least 3. "
            f"Received: {args.streams}, {args.periods}."
        )
    return args


if __name__ == "__main__":
    main()
