# SPDX-License-Identifier: Apache-2.0
"""`adaptcp verify`: reads every byte of checkpoints and compares checksums."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_directory, add_step, add_verb
from adaptcp_tf._src.inspection import VerifyReport, open_tiers, step_to_read, verify

_TEXT = """Reads every byte of the checkpoints in DIR and compares all checksums.

Says which files are damaged or missing, and which checkpoints need them.
Changes nothing, and may run beside training. Exit status 1 when anything is
wrong.

Examples:
  adaptcp verify /data/run1
  adaptcp verify s3://bucket/run1 --step 1200 --threads 32
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(verbs, "verify", _run, summary="read every byte, tell damage", text=_TEXT)
    add_directory(parser)
    add_step(parser, "all")
    parser.add_argument(
        "--threads", type=int, default=8, metavar="N", help="files read at once (default: 8)"
    )


def _run(args: argparse.Namespace) -> int:
    tiers = open_tiers(args.directory)
    steps = tiers.front.all_steps()
    if args.step is not None:
        steps = [step_to_read(tiers.front, args.step)]
    start = time.perf_counter()
    with terminal.progress("verifying") as watch:
        report = verify(tiers, steps, num_threads=max(1, args.threads), watch=watch)
    seconds = time.perf_counter() - start
    if args.json:
        terminal.print_json(
            {
                "directory": tiers.front.directory,
                "steps": report.steps,
                "bad_steps": report.bad_steps,
                "problems": [dataclasses.asdict(problem) for problem in report.problems],
                "files": report.files,
                "bytes": report.bytes,
                "seconds": seconds,
            }
        )
    else:
        _print(report, tiers.front.directory, seconds)
    return 1 if report.problems else 0


def _print(report: VerifyReport, directory: str, seconds: float) -> None:
    if not report.steps:
        terminal.say(f"There are no checkpoints in {directory}.")
        return
    for problem in report.problems:
        steps = ", ".join(map(str, problem.steps))
        terminal.say(problem.path, style="bold red")
        terminal.say(f"  needed by step {steps}")
        terminal.say(f"  {problem.message}")
    good = len(report.steps) - len(report.bad_steps)
    what = f"{report.files} files, {terminal.size(report.bytes)}, {seconds:.1f} s"
    if report.problems:
        bad = ", ".join(map(str, report.bad_steps))
        terminal.say(f"{good} of {len(report.steps)} checkpoints are good ({what}).")
        terminal.say(f"Damaged: step {bad}.", style="bold red")
    else:
        noun = "checkpoint is" if good == 1 else "checkpoints are"
        terminal.say(f"{good} {noun} good ({what}).", style="green")
