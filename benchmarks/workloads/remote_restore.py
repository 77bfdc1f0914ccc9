# SPDX-License-Identifier: Apache-2.0
"""Restores from slow storage: ours with parts of it left out, and baselines as they are described."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import adaptcp_tf as acp
from adaptcp_tf._src.manifest import CheckpointStore

from . import models, slow_store
from .chains import restore_in_order, save_history
from .digest import digest
from .throughput import Workload

OURS = "adaptcp"
# How many times faster AdaptCP restores, as its authors report it.
PUBLISHED = {"check_n_run": 9.41, "incremental_n": 12.70, "incremental": 13.62}
_ADAPTIVE = "adaptive"
_QUANTISED = "check_n_run_4bit"
_BUFFER = "buffer"


@dataclasses.dataclass(frozen=True)
class Contender:
    """A chain and how it is read.

    Attributes:
        name: in the results.
        chain: the strategy that wrote it.
        streams: blocks read at once.
        in_order: every copy of every row, the oldest cut first; otherwise our restore.
        buffer: whether a copy of the files is in the SSD buffer.
    """

    name: str
    chain: str
    streams: int
    in_order: bool = False
    buffer: bool = False

    @property
    def is_baseline(self) -> bool:
        """One stream in order, which a reader that reads ahead keeps busy all the time."""
        return self.in_order and self.streams == 1


@dataclasses.dataclass
class Measured:
    """The restores of one contender; what they read is the same each time."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    row_copies: int = 0
    bytes_read: int = 0
    requests: int = 0


def policies(args: argparse.Namespace) -> dict[str, acp.policies.Policy]:
    """The strategies that write chains."""
    return {
        _ADAPTIVE: acp.policies.Adaptive(hot_threshold=args.hot_threshold),
        "check_n_run": acp.policies.CheckNRun(),
        _QUANTISED: acp.policies.CheckNRun(4, quantize_slots=True),
        "incremental_n": acp.policies.IncrementalN(args.base_every),
        "incremental": acp.policies.Incremental(),
    }


def contenders(args: argparse.Namespace) -> list[Contender]:
    """Ours, ours with one idea less, the baselines, and the baselines' chains read by our restore."""
    many = args.read_threads
    baselines = [chain for chain in policies(args) if chain != _ADAPTIVE]
    return [
        Contender(OURS, _ADAPTIVE, many),
        Contender("one stream", _ADAPTIVE, 1),
        Contender("cut by cut", _ADAPTIVE, many, in_order=True),
        Contender("copy in the buffer", _ADAPTIVE, many, buffer=True),
        *(Contender(chain, chain, 1, in_order=True) for chain in baselines),
        *(Contender(f"{chain}, our restore", chain, many) for chain in baselines),
    ]


def measure(
    args: argparse.Namespace, directory: Path, on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Saves the chains, then restores each contender's in turns.

    Args:
        args: of the benchmark.
        directory: where the chains go.
        on_progress: called with a line about what begins.

    Returns:
        One row a contender.

    Raises:
        RuntimeError: a restore gave other rows than were saved.
    """
    batches = args.intervals * args.batches
    workload = Workload.draw(
        batch_size=args.batch, seed=args.seed, batches=batches, rows=args.rows, dim=args.dim
    )
    model = models.criteo_model(args.dim, name="restored", seed=args.seed)
    models.create_slots(model)
    written = {}
    for name, policy in policies(args).items():
        on_progress(f"saving {args.intervals + 1} checkpoints: {name}")
        written[name] = save_history(
            model,
            workload,
            directory / name,
            policy,
            intervals=args.intervals,
            batches=args.batches,
        )
    expected = digest(model).total
    shutil.copytree(directory / _ADAPTIVE, directory / _BUFFER)
    results = {contender: Measured() for contender in contenders(args)}
    for number in range(1, args.rounds + 1):
        for contender, measured in results.items():
            # Those that wait for storage most of the time take as long each time.
            if number > 1 and (contender.streams == 1 or contender.in_order):
                continue
            on_progress(f"round {number} of {args.rounds}: {contender.name}")
            _restore(args, model, directory, contender, measured)
            exact = contender.chain != _QUANTISED
            if number == 1 and exact and digest(model).total != expected:
                raise RuntimeError(f"{contender.name} restored other rows than were saved")
    slow_store.configure()
    return [_row(args, directory, one, results, written[one.chain]) for one in results]


def _restore(
    args: argparse.Namespace,
    model: tf.keras.Model,
    directory: Path,
    contender: Contender,
    measured: Measured,
) -> None:
    url = slow_store.url(directory / contender.chain)
    slow_store.configure(
        stream_bytes_per_sec=args.stream_mib_per_sec * 2**20,
        latency_secs=0 if contender.is_baseline else args.latency_ms / 1e3,
    )
    if contender.in_order:
        start = time.perf_counter()
        measured.row_copies, measured.bytes_read = restore_in_order(
            model,
            url,
            streams=contender.streams,
            threads=1 if contender.is_baseline else args.threads,
        )
        measured.seconds.append(time.perf_counter() - start)
    else:
        buffer = str(directory / _BUFFER) if contender.buffer else None
        options = acp.CheckpointOptions(
            local_dir=buffer, restore_threads=args.threads, read_threads=contender.streams
        )
        manager = acp.CheckpointManager(url, model=model, options=options)
        start = time.perf_counter()
        report = manager.restore()
        measured.seconds.append(time.perf_counter() - start)
        measured.row_copies, measured.bytes_read = report.rows, report.bytes
        manager.close()
    measured.requests = slow_store.counters().requests


def _row(
    args: argparse.Namespace,
    directory: Path,
    contender: Contender,
    results: dict[Contender, Measured],
    written: int,
) -> dict[str, Any]:
    store = CheckpointStore(directory / contender.chain)
    manifest = store.read(store.latest_step())
    measured = results[contender]
    ours = statistics.median(next(iter(results.values())).seconds)
    seconds = statistics.median(measured.seconds)
    return {
        "contender": contender.name,
        "chain": contender.chain,
        "streams": contender.streams,
        "segments": len(manifest.segments),
        "mib_written": written / 2**20,
        "row_copies": measured.row_copies,
        "mib_read": measured.bytes_read / 2**20,
        "requests": measured.requests,
        "seconds": seconds,
        "seconds_lowest": min(measured.seconds),
        "seconds_highest": max(measured.seconds),
        "stream_seconds": measured.bytes_read / 2**20 / args.stream_mib_per_sec,
        "ratio": seconds / ours,
        "published_ratio": PUBLISHED.get(contender.name),
    }
