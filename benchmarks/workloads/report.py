# SPDX-License-Identifier: Apache-2.0
"""What every benchmark prints besides its figures: the conditions, a table, one line of JSON."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_PACKAGES = ("tensorflow", "tensorflow-recommenders-addons", "numpy", "adaptcp-tf")

_FILE_WIDTH = 120


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the arguments that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print a JSON object on the last line")
    return parser


def parse_or_small(parser: argparse.ArgumentParser, small: dict[str, Any]) -> argparse.Namespace:
    """Parses the command line; with --small these values take the place of what it says."""
    parser.add_argument("--small", action="store_true", help=f"a quick look: {small}")
    args = parser.parse_args()
    if args.small:
        vars(args).update(small)
    return args


def conditions(args: argparse.Namespace) -> dict[str, Any]:
    """Versions, machine and arguments, so that a figure can be judged and repeated."""
    return {
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "arguments": vars(args),
    }


def table(title: str, rows: list[dict[str, Any]]) -> Table:
    """A table with one line per row and one column per key; None shows as a dash."""
    shown = _empty_table(title)
    for name in rows[0]:
        shown.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        shown.add_row(*(_cell(value) for value in row.values()))
    return shown


def comparison(title: str, rows: list[dict[str, Any]]) -> Table:
    """A table with one line per key and one column per row, for few rows with many keys."""
    shown = _empty_table(title)
    names = list(rows[0])
    shown.add_column(names[0].replace("_", " "))
    for row in rows:
        shown.add_column(_cell(row[names[0]]), justify="right")
    for name in names[1:]:
        shown.add_row(name.replace("_", " "), *(_cell(row[name]) for row in rows))
    return shown


def _empty_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def publish(report: dict[str, Any], tables: list[Table], as_json: bool) -> None:
    """Prints conditions and tables, then, if asked, the whole report as JSON on the last line."""
    console = Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    for name, value in report["conditions"].items():
        console.print(f"{name}: {value}", highlight=False)
    for shown in tables:
        console.print(shown)
    if as_json:
        print(json.dumps(report), flush=True)
