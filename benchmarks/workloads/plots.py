# SPDX-License-Identifier: Apache-2.0
"""The picture that compares strategies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker

_MIB = 1 << 20


def compare_strategies(
    results: list[dict[str, Any]], histories: dict[str, list[dict[str, Any]]], path: Path
) -> None:
    """Writes four panels as PNG: throughput, stall, bytes of each checkpoint, restore time.

    Args:
      results: one per strategy, from `throughput.summarize`, with `restore_seconds` added.
      histories: the checkpoints of each strategy, from `Contender.history`.
      path: where to write.
    """
    figure, ((speed, stall), (volume, restore)) = pyplot.subplots(2, 2, figsize=(13, 7.5))
    colors = {row["strategy"]: f"C{index}" for index, row in enumerate(results)}
    saving = [row for row in results if row["checkpoints"]]

    _bars(speed, results, "ratio_to_none", colors, "{:.2f}")
    speed.set_title("Training throughput")
    speed.set_ylabel("relative to no checkpoints")

    names = [row["strategy"] for row in saving]
    stall.boxplot(
        [[max(one["stall_ms"], 1e-3) for one in histories[name]] for name in names], showfliers=True
    )
    stall.set_xticks(range(1, len(names) + 1), names)
    stall.set_yscale("log")
    stall.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    stall.yaxis.set_major_formatter("{x:g}")
    stall.yaxis.set_minor_formatter(ticker.NullFormatter())
    stall.set_title("Stall of one checkpoint")
    stall.set_ylabel("milliseconds (log scale)")

    # Patterns as well as colours, since strategies that write the same lie on one another.
    for name, pattern in zip(names, itertools.cycle(("-", "--", "-.", ":"))):
        steps = [one["step"] for one in histories[name]]
        sizes = [one["bytes"] / _MIB for one in histories[name]]
        volume.plot(steps, sizes, linestyle=pattern, marker=".", color=colors[name], label=name)
    volume.set_ylim(bottom=0)
    volume.set_title("Size of each checkpoint")
    volume.set_xlabel("training step")
    volume.set_ylabel("MiB written")
    volume.legend()

    _bars(restore, saving, "restore_seconds", colors, "{:.2f} s")
    restore.set_title("Restore of the newest checkpoint")
    restore.set_ylabel("seconds")

    for axes in (speed, stall, restore):
        axes.tick_params(axis="x", labelsize="small")
    for axes in (speed, stall, volume, restore):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(
    axes: pyplot.Axes, rows: list[dict[str, Any]], key: str, colors: dict[str, str], label: str
) -> None:
    names = [row["strategy"] for row in rows]
    bars = axes.bar(names, [row[key] for row in rows], color=[colors[name] for name in names])
    axes.bar_label(bars, labels=[label.format(row[key]) for row in rows], padding=2)
    axes.margins(y=0.15)


def compare_frequencies(
    results: list[dict[str, Any]], published: dict[str, float], path: str | Path
) -> None:
    """Writes a PNG with two panels: slow-down and restore time by batches per checkpoint.

    Args:
      results: the rows of `frequency.py`.
      published: strategy -> slow-down in percent at the shortest interval.
      path: where to write.
    """
    figure, (slowed, restore) = pyplot.subplots(1, 2, figsize=(11, 4.8))
    strategies = list(dict.fromkeys(row["strategy"] for row in results))
    shortest = min(row["batches"] for row in results)
    for index, (strategy, pattern) in enumerate(
        zip(strategies, itertools.cycle(("-", "--", "-.", ":")))
    ):
        rows = [row for row in results if row["strategy"] == strategy]
        batches = [row["batches"] for row in rows]
        style = {"color": f"C{index}", "linestyle": pattern, "marker": ".", "label": strategy}
        slowed.plot(batches, [row["slowed_percent"] for row in rows], **style)
        restore.plot(batches, [row["restore_secs"] for row in rows], **style)
        if strategy in published:
            slowed.plot(shortest, published[strategy], "o", color=f"C{index}", fillstyle="none")
    slowed.plot([], [], "o", color="gray", fillstyle="none", label="published")
    slowed.set_title("Training slowed by checkpoints")
    slowed.set_ylabel("percent of the time")
    slowed.set_ylim(0, 100)
    restore.set_title("Restore")
    restore.set_ylabel("seconds (log scale)")
    restore.set_yscale("log")
    for axes in (slowed, restore):
        _batches_axis(axes)
    handles, labels = slowed.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def slow_storage(results: list[dict[str, Any]], path: str | Path) -> None:
    """Writes a PNG: throughput at the shortest interval; and, if there are more, over all of them.

    Args:
      results: the rows of `slow_storage.py`.
      path: where to write.
    """
    intervals = sorted({row["interval"] for row in results})
    shortest = [row for row in results if row["interval"] == intervals[0]]
    names = [row["contender"] for row in shortest]
    panels = 1 if len(intervals) == 1 else 2
    figure, axes = pyplot.subplots(1, panels, figsize=(6.5 * panels, 4.8), squeeze=False)
    bars = axes[0][0]
    labels = [f"{row['ratio_to_none']:.2f}" for row in shortest]
    shown = bars.barh(
        [name.replace("_", " ") for name in names],
        [row["ratio_to_none"] for row in shortest],
        color=[f"C{index}" for index in range(len(names))],
    )
    bars.bar_label(shown, labels=labels, padding=3)
    bars.invert_yaxis()
    bars.margins(x=0.12)
    bars.set_title(f"A checkpoint every {intervals[0]} batches")
    bars.set_xlabel("throughput relative to no checkpoints")
    bars.grid(axis="x", alpha=0.3)
    if panels == 2:
        curve = axes[0][1]
        for index, name in enumerate(names):
            rows = [row for row in results if row["contender"] == name]
            ratios = [row["ratio_to_none"] for row in rows]
            batches = [row["interval"] for row in rows]
            curve.plot(batches, ratios, marker=".", color=f"C{index}", label=name.replace("_", " "))
        _batches_axis(curve)
        # On a noisy machine a contender may come out faster than the one without checkpoints.
        curve.set_ylim(0, max(1.1, 1.05 * max(row["ratio_to_none"] for row in results)))
        curve.set_title("More and more often")
        curve.set_ylabel("throughput relative to no checkpoints")
        curve.legend()
    for one in axes[0]:
        one.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _batches_axis(axes: pyplot.Axes) -> None:
    """A logarithmic axis of batches between checkpoints, the shortest on the right."""
    axes.set_xscale("log")
    axes.invert_xaxis()
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel("batches from one checkpoint to the next (log scale)")
    axes.grid(alpha=0.3)


def compare_volumes(results: list[dict[str, Any]], path: str | Path) -> None:
    """Writes a PNG with, per stream, the bytes written and read by strategy and base period.

    Args:
      results: the rows of `volume.py`.
      path: where to write.
    """
    streams = list(dict.fromkeys(row["stream"] for row in results))
    figure, axes = pyplot.subplots(
        2, len(streams), figsize=(3.6 * len(streams), 7), squeeze=False, sharex=True
    )
    panels = (
        ("bytes_written", "MiB written in all checkpoints (log scale)"),
        ("bytes_read_at_restore", "MiB read at a restore, mean (log scale)"),
    )
    for column, stream in enumerate(streams):
        for line, (key, label) in enumerate(panels):
            _volume_panel(axes[line][column], [r for r in results if r["stream"] == stream], key)
            axes[line][0].set_ylabel(label)
        axes[0][column].set_title(stream.replace("_", " "))
        axes[1][column].set_xlabel("checkpoints per base")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _volume_panel(axes: pyplot.Axes, rows: list[dict[str, Any]], key: str) -> None:
    strategies = list(dict.fromkeys(row["strategy"] for row in rows))
    periods = sorted({row["period"] for row in rows})
    width = 0.8 / len(strategies)
    for index, strategy in enumerate(strategies):
        heights = [
            row[key] / _MIB
            for period in periods
            for row in rows
            if (row["strategy"], row["period"]) == (strategy, period)
        ]
        places = [at + (index - (len(strategies) - 1) / 2) * width for at in range(len(periods))]
        axes.bar(places, heights, width, label=strategy, color=f"C{index}")
    axes.set_xticks(range(len(periods)), periods)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
