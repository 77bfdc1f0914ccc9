# SPDX-License-Identifier: Apache-2.0
"""The picture of a run's checkpoints."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Distinct for those who see few colours, and in grey.
_CLASSES = (
    ("bytes_base", "base", "#33415c"),
    ("bytes_increment", "increment: cold rows", "#5b9bd5"),
    ("bytes_differential", "differential: hot rows", "#f2a541"),
    ("bytes_dense", "dense variables", "#9aa5b1"),
)
_LINE = "#33415c"
_SECOND = "#c8553d"
_TEXT = "#1f2933"
_FAINT = "#7b8794"


def draw_history(reports: Sequence[dict[str, Any]], *, title: str, kind: str = "png") -> bytes:
    """Draws what each checkpoint wrote and cost.

    Args:
        reports: dicts with fields of `SaveReport`, by rising step; those that are missing or None
            leave gaps.
        title: whose checkpoints these are.
        kind: "png", "svg" or "pdf".

    Returns:
        The content of the picture's file.
    """
    figure = Figure(figsize=(12, 9.5), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1, hspace=0.04, wspace=0.04)
    panels = figure.subplot_mosaic(
        [["bytes", "bytes"], ["stall", "threshold"], ["upload", "chain"]],
        height_ratios=(1.3, 1, 1),
        sharex=True,
    )
    run = _Run(reports)
    _draw_bytes(panels["bytes"], run)
    _draw_stall(panels["stall"], run)
    _draw_threshold(panels["threshold"], run)
    _draw_upload(panels["upload"], run)
    _draw_chain(panels["chain"], run)
    for name, axes in panels.items():
        _tidy(axes, with_label=name in ("upload", "chain"))
    span = run.steps[-1] - run.steps[0] or 1.0
    panels["bytes"].set_xlim(
        run.steps[0] - run.width - 0.01 * span, run.steps[-1] + run.width + 0.01 * span
    )
    figure.suptitle(
        f"{len(reports)} checkpoints of {_shortened(title)}",
        x=0.01,
        ha="left",
        fontsize=15,
        fontweight="bold",
        color=_TEXT,
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=130)
    return buffer.getvalue()


class _Run:
    """Columns of reports; what is not known is NaN."""

    def __init__(self, reports: Sequence[dict[str, Any]]):
        self._reports = reports
        self.steps = self.column("step")
        gaps = np.diff(self.steps)
        self.width = 0.8 * float(np.median(gaps)) if len(gaps) else 0.8

    def column(self, name: str) -> np.ndarray:
        values = [report.get(name) for report in self._reports]
        numbers = [v if isinstance(v, (int, float)) else None for v in values]
        return np.array([np.nan if v is None else v for v in numbers], float)


def _shortened(title: str, most: int = 80) -> str:
    return title if len(title) <= most else f"…{title[-most:]}"


def _draw_bytes(axes: Axes, run: _Run) -> None:
    floor = np.zeros(len(run.steps))
    for name, label, color in _CLASSES:
        sizes = np.nan_to_num(run.column(name))
        if not sizes.any():
            continue
        axes.bar(run.steps, sizes, run.width, bottom=floor, color=color, label=label, linewidth=0)
        floor += sizes
    axes.set_title("Written by each checkpoint")
    axes.yaxis.set_major_formatter(ticker.EngFormatter(unit="B"))
    axes.set_ylim(0, max(floor.max() * 1.03, 1))
    axes.tick_params(labelbottom=True)
    _legend(axes)


def _draw_stall(axes: Axes, run: _Run) -> None:
    stall = run.column("stall_ms")
    axes.plot(run.steps, stall, ".", color=_LINE, markersize=5)
    median = np.nanmedian(stall) if np.isfinite(stall).any() else np.nan
    if np.isfinite(median):
        axes.axhline(median, color=_SECOND, linewidth=1, label=f"median {median:.2g} ms")
        _legend(axes)
    positive = stall[np.isfinite(stall) & (stall > 0)]
    if len(positive) and positive.max() > 10 * positive.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_title("Stall of training")
    axes.set_ylabel("milliseconds")


def _draw_threshold(axes: Axes, run: _Run) -> None:
    threshold = run.column("hot_threshold")
    threshold[threshold > 1] = np.nan
    known = np.isfinite(threshold)
    gaps = known.any() and not known.all()
    axes.set_title("Hot threshold" + (", gaps where all rows are cold" if gaps else ""))
    axes.set_ylabel("updates per interval")
    axes.set_ylim(0, 1.05)
    if known.any():
        axes.step(run.steps, threshold, where="post", color=_LINE, linewidth=1.8)
        axes.plot(run.steps, threshold, ".", color=_LINE, markersize=4)
    else:
        _say(axes, "none: this strategy has no hot rows")


def _draw_upload(axes: Axes, run: _Run) -> None:
    durable = run.column("seconds_to_durable")
    uploaded = run.column("seconds_to_uploaded")
    buffered = np.isfinite(uploaded) & (uploaded > durable)
    axes.plot(run.steps, durable, ".-", color=_LINE, linewidth=1, markersize=4)
    labels = [("buffer" if buffered.any() else "directory", durable, _LINE)]
    if buffered.any():
        lag = np.where(np.isfinite(uploaded), uploaded, np.nan)
        axes.plot(run.steps, lag, ".", color=_SECOND, markersize=5)
        axes.vlines(run.steps, durable, lag, color=_SECOND, linewidth=0.8, alpha=0.4)
        labels.append(("directory: upload lag", lag, _SECOND))
    for label, _, color in labels:
        axes.plot([], [], ".-", color=color, label=label)
    axes.set_title("Durable after")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _draw_chain(axes: Axes, run: _Run) -> None:
    axes.step(run.steps, run.column("chain_length"), where="post", color=_LINE, linewidth=1.6)
    axes.set_title("Length of the chain")
    axes.set_ylabel("checkpoints since the base", color=_LINE)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    right = axes.twinx()
    right.plot(run.steps, run.column("restore_bytes"), color=_SECOND, linewidth=1.2, linestyle="--")
    right.set_ylabel("bytes that a restore reads", color=_SECOND)
    right.set_ylim(bottom=0)
    right.yaxis.set_major_formatter(ticker.EngFormatter(unit="B"))
    right.tick_params(colors=_FAINT, labelsize=9, length=0, pad=8)
    for spine in right.spines.values():
        spine.set_visible(False)


def _legend(axes: Axes) -> None:
    """Beside the title, where no data are."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderpad=0.2)


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=_FAINT)


def _tidy(axes: Axes, with_label: bool) -> None:
    axes.set_title(axes.get_title(), loc="left", fontsize=11.5, fontweight="bold", color=_TEXT)
    axes.set_title("", loc="center")
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#cbd2d9")
    axes.tick_params(which="both", colors=_FAINT, labelsize=9, length=0)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
    axes.yaxis.label.set(fontsize=9.5)
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    if with_label:
        axes.set_xlabel("training step", fontsize=9.5, color=_TEXT)
    legend = axes.get_legend()
    if legend is not None:
        legend.set_frame_on(False)
        for text in legend.get_texts():
            text.set(fontsize=9, color=_TEXT)
