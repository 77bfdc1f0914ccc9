# SPDX-License-Identifier: Apache-2.0
"""What people see: tables, sizes, times and progress bars; what programs read: JSON."""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich import box, filesize
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

_BAR_AFTER_SECS = 1.0


def print_json(value: Any) -> None:
    """Prints one JSON value, on one line."""
    print(json.dumps(value, allow_nan=False))


def say(text: str, style: str | None = None) -> None:
    """Prints a line as it stands, folded to the terminal; in colour on terminals only."""
    Console().print(escape(text), style=style, highlight=False)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Prints names and values, one a line, long values folded beside their names."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(escape(name), escape(value))
    Console(highlight=False).print(table)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Prints a table that is as wide as the terminal at most, 80 columns where there is none.

    Args:
        columns: titles; may have line breaks.
        rows: cells, as they stand.
        left: so many first columns hold text, which is folded when it is long; the others numbers.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for index, title in enumerate(columns):
        if index < left:
            table.add_column(title, overflow="fold")
        else:
            table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def size(num_bytes: float) -> str:
    """Returns a size for people: 1.2 MB."""
    return filesize.decimal(int(num_bytes)).replace("bytes", "B").replace("byte", "B")


def number(value: float) -> str:
    """Returns a count for people: 1,200."""
    return f"{value:,}"


def moment(wall_time: float) -> str:
    """Returns a time for people, in UTC."""
    try:
        when = datetime.datetime.fromtimestamp(wall_time, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "?"
    return f"{when:%Y-%m-%d %H:%M:%S}"


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error for work that takes more than a second; on terminals only.

    Example:
        >>> with progress("verifying") as watch:
        ...     watch(done_bytes, total_bytes)

    Args:
        what: is being done.

    Returns:
        A context manager, of a function to be called with the bytes done and those to do.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = bar.add_task(what, total=None)
    timer = threading.Timer(_BAR_AFTER_SECS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
