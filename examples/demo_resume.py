# SPDX-License-Identifier: Apache-2.0
"""First part of the demo: a training killed with SIGKILL and resumed ends with the same bits."""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from workloads import movielens

_BATCH = 256
_POLL_SECONDS = 0.01


class TrainingFailedError(RuntimeError):
    """A training of the demo did not do what it should."""


class Training:
    """The MovieLens example in a process of its own, writing to a log file.

    Args:
      args: the demo's arguments.
      scratch: where its checkpoints and its digest go.
      name: of its checkpoint directory and its log.
      strategy: a strategy of adaptcp_tf, or "none".
    """

    def __init__(self, args: argparse.Namespace, scratch: Path, name: str, strategy: str):
        self.directory = scratch / name
        self._digest = scratch / f"{name}.json"
        self._log = args.output / f"{name}.log"
        command = [sys.executable, str(Path(__file__).with_name("keras_movielens.py"))]
        command += ["--directory", str(self.directory), "--digest_out", str(self._digest)]
        command += ["--strategy", strategy, "--save_freq", str(args.save_freq)]
        command += ["--epochs", str(args.epochs), "--batch", str(_BATCH)]
        if args.samples:
            command += ["--samples", str(args.samples)]
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def finish(self) -> dict[str, Any]:
        """Waits for the end and returns the digest of the trained model.

        Raises:
          TrainingFailedError: if the training failed, naming its log.
        """
        if self._process.wait() != 0:
            raise TrainingFailedError(
                f"A training ended with status {self._process.returncode}; see {self._log}."
            )
        return json.loads(self._digest.read_text(encoding="ascii"))

    def kill_after(self, step: int) -> int:
        """Kills the training once the checkpoint of `step` exists; returns the newest one's step.

        Raises:
          TrainingFailedError: if the training ends before that.
        """
        while self._newest_step() < step:
            if self._process.poll() is not None:
                raise TrainingFailedError(
                    f"The training to be killed ended before step {step} was checkpointed, with "
                    f"status {self._process.returncode}; see {self._log}."
                )
            time.sleep(_POLL_SECONDS)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        return self._newest_step()

    def _newest_step(self) -> int:
        manifests = self.directory.glob("manifest-*.json")
        return max((int(path.stem.rpartition("-")[2]) for path in manifests), default=0)


def run(args: argparse.Namespace, scratch: Path, console: Console) -> bool:
    """Compares a killed and resumed training with one that never was; returns if they are equal."""
    samples = len(movielens.load(args.samples).users)
    steps = args.epochs * math.ceil(samples / _BATCH)
    console.print(
        f"MovieLens-100k: {samples:,} ratings, {args.epochs} epochs of {steps // args.epochs:,} steps, "
        f"a checkpoint every {args.save_freq}"
    )
    with console.status("training without interruption and without checkpoints"):
        whole = Training(args, scratch, "uninterrupted", strategy="none").finish()
    console.print(f"[green]✓[/] uninterrupted training ended at step {whole['iterations']:,}")

    with console.status("training with checkpoints, to be killed in the middle"):
        newest = Training(args, scratch, "resumed", strategy="adaptive").kill_after(steps // 2)
    console.print(f"[red]✗[/] trainer killed with SIGKILL; its newest checkpoint: step {newest:,}")

    with console.status("training again in a new process"):
        resumed = Training(args, scratch, "resumed", strategy="adaptive").finish()
    console.print(f"[green]✓[/] resumed training ended at step {resumed['iterations']:,}")
    return _compare(whole, resumed, console)


def _compare(whole: dict[str, Any], resumed: dict[str, Any], console: Console) -> bool:
    console.print(
        f"  uninterrupted {whole['total']}", f"  resumed       {resumed['total']}", sep="\n"
    )
    different = [
        name for name, part in whole["parts"].items() if resumed["parts"].get(name) != part
    ]
    if whole != resumed:
        console.print(f"[bold red]Different[/]: {', '.join(different) or 'the number of parts'}\n")
        return False
    console.print(
        f"[bold green]Identical, bit for bit[/]: {whole['rows']:,} rows with optimizer slots, "
        "dense variables, counters, metrics\n"
    )
    return True
