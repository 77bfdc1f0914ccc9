# SPDX-License-Identifier: Apache-2.0
"""Shows what adaptcp_tf does: a killed training resumed bit for bit, and strategies compared."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import demo_resume
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Runs both parts; returns 0 if the resumed training equals the uninterrupted one."""
    args = parse_arguments()
    quiet_libraries()
    console = Console(highlight=False)
    started = time.perf_counter()
    args.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.output, prefix="checkpoints-") as scratch:
        console.rule("[bold]1. Kill a training, resume it, compare every bit")
        identical = demo_resume.run(args, Path(scratch), console)
        console.rule("[bold]2. What checkpoints cost on a Criteo-like stream")
        with console.status("loading TensorFlow"):
            demo_strategies = importlib.import_module("demo_strategies")
        demo_strategies.run(args, Path(scratch), console)
    console.print(f"Done in {time.perf_counter() - started:.0f} seconds.")
    return 0 if identical else 1


def quiet_libraries() -> None:
    """Keeps what TensorFlow and TFRA say while they load out of the demo's own output."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="pkg_resources")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line; the defaults take a few minutes on two cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "demo")
    resume = parser.add_argument_group("part 1: MovieLens-100k")
    resume.add_argument("--samples", type=int, help="use the first ratings only; default: all")
    resume.add_argument("--epochs", type=int, default=3)
    resume.add_argument("--save_freq", type=int, default=5, help="steps between checkpoints")
    strategies = parser.add_argument_group("part 2: Criteo-like stream")
    strategies.add_argument("--rows", type=int, default=400_000, help="rows before training")
    strategies.add_argument("--batch", type=int, default=2048, help="samples per batch")
    strategies.add_argument("--interval", type=int, default=20, help="steps between checkpoints")
    strategies.add_argument("--steps", type=int, default=60, help="steps of one turn")
    strategies.add_argument("--rounds", type=int, default=2, help="two turns each in every round")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except demo_resume.TrainingFailedError as error:
        sys.exit(str(error))
