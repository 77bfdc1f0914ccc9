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
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

_BAR_AFTER_SECS = 1.0
# Between the columns of a table.
_GAP = 2
# Numbers of 16 digits, as the longest step.
_NEVER_FOLDED = 16
# Into so many letters a line, or more.
_LEAST_FOLDED = 8


def _console(*, stderr: bool = False) -> Console:
    # A name such as tower:star:emb has no pictures in it, and its numbers are as plain as the rest.
    return Console(stderr=stderr, emoji=False, highlight=False)


def print_json(value: Any) -> None:
    """Prints one JSON value, on one line."""
    print(json.dumps(value, allow_nan=False))


def say(text: str, style: str | None = None) -> None:
    """Prints a line as it stands, folded to the terminal; in colour on terminals only."""
    _console().print(escape(text), style=style)


def say_exported(report: Any, files: str = "") -> None:
    """Prints what an export wrote: a `RowsExport` or `SavedModelExport`.

    Args:
        report: what it returned.
        files: how many files, in words.
    """
    say(
        f"step {report.step}: {number(report.rows)} rows to {report.directory}: {files}"
        f"{size(report.bytes)}, {report.seconds:.1f} s"
    )
    if not report.exact:
        say("The checkpoint was quantised: rows are near what was trained, not the same.")


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Prints names and values, one a line, long values folded beside their names."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(escape(name), escape(value))
    _console().print(table)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Prints a table that is as wide as the terminal at most, 80 columns where there is none.

    Where numbers are so long that they leave no room for text, there is a line for each cell instead.

    Args:
        columns: titles.
        rows: cells, as they stand.
        left: so many first columns hold text, which is folded when it is long; the others numbers.
    """
    widths = [max(map(len, cells)) for cells in zip(columns, *rows)]
    least = [w if w <= _NEVER_FOLDED else _LEAST_FOLDED for w in widths[:left]] + widths[left:]
    # With a blank at either edge, and the gap and one more between columns.
    if sum(least) + (_GAP + 1) * (len(columns) - 1) + 2 > _console().width:
        for row in rows:
            print_facts(list(zip(columns, row)))
            say("")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP, 0, 0))
    for index, (title, width) in enumerate(zip(columns, widths)):
        if index < left:
            table.add_column(title, overflow="fold", no_wrap=width <= _NEVER_FOLDED)
        else:
            table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    _console().print(table)


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


class _OnceKnown(ProgressColumn):
    """A column that is empty while nobody knows how much there is to do."""

    def __init__(self, column: ProgressColumn):
        super().__init__()
        self._column = column

    def render(self, task: Task) -> Any:
        return Text() if task.total is None else self._column.render(task)


@contextlib.contextmanager
def progress(what: str, *, of: str = "bytes") -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error for work that takes more than a second; on terminals only.

    Until somebody tells how much there is to do, the bar only moves.

    Example:
        >>> with progress("verifying") as watch:
        ...     watch(done_bytes, total_bytes)

    Args:
        what: is being done.
        of: what is counted, "bytes" or the plural of something else.

    Returns:
        A context manager, of a function to be called with how much is done and how much there is to
        do; None where nobody knows.
    """
    amount = [DownloadColumn()] if of == "bytes" else [MofNCompleteColumn(), TextColumn(of)]
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *map(_OnceKnown, amount),
        TimeRemainingColumn(),
        console=_console(stderr=True),
        transient=True,
        # What goes to standard output meanwhile stays there.
        redirect_stdout=False,
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
