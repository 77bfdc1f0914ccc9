# SPDX-License-Identifier: Apache-2.0
"""How checkpoints are taken, kept and restored."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Any

from adaptcp_tf import errors
from adaptcp_tf._src.manifest.types import ENCODINGS, RAW
from adaptcp_tf._src.policy import STRATEGIES, Policy
from adaptcp_tf._src.tables.group import READ_THREADS

# Python 3.9 has no keyword-only dataclasses; there the same calls work without the check.
_KEYWORD_ONLY = {"kw_only": True} if sys.version_info >= (3, 10) else {}


@dataclasses.dataclass(frozen=True, **_KEYWORD_ONLY)
class CheckpointOptions:
    """Options of a CheckpointManager; the Keras callback takes the same as arguments.

    Example:
        >>> options = acp.CheckpointOptions(strategy="incremental", max_to_keep=5)

    Attributes:
        strategy: "adaptive", "full", "incremental", "incremental_n", "differential", "check_n_run", or
            a policy object.
        hot_threshold: with "adaptive", the updates per interval (0 to 1) from which a row is hot;
            None has it solved from what checkpoints and restores of this run cost.
        hysteresis: relative width of the band around the threshold in which a row keeps its class.
        base_every: take a base every so many checkpoints; None leaves it to the strategy (full:
            always; differential: when it pays; adaptive: solved like the threshold; incremental: only
            when it must be). "incremental_n" needs it, "check_n_run" has a rule of its own.
        mean_secs_between_failures: seconds of training between two restarts; None learns it from
            the restarts of this run.
        rate_half_life_intervals: after how many checkpoints an update counts half in the update
            rate of its row.
        encoding: how float32 and float64 parameters are stored: "raw"; or smaller and not exact:
            "float16", "bfloat16", or "int8", "int4", "int3", "int2", with so many bits a value between
            the least and the largest of its vector.
        slot_encoding: the same of the optimizer's slots. "bfloat16" keeps their magnitude; others may
            round a second moment to 0, which makes Adam's next step large.
        exact: refuse to save or restore anything else than every bit.
        max_to_keep: how many of the newest checkpoints stay restorable; None keeps all.
        keep_period: besides, keep checkpoints whose step is a multiple of this.
        local_dir: an SSD buffer: checkpoints are written there, and from there to `directory` in the
            background. None writes to `directory` at once, which is right when that is a local disk.
        local_bytes: how large the files in the buffer may be together; None sets no limit. Files that
            are uploaded are deleted first; then training waits, and says so.
        max_writers: threads that write each table group's share of a checkpoint, into files of their
            own, when there is enough to write.
        upload_threads: files that are uploaded at once.
        upload_patience_secs: for how long a checkpoint is uploaded again and again while the store
            fails; then it counts as failed, and is tried again with the next one.
        when_busy: what `save` does while the previous checkpoint is still being saved: "skip" it,
            its rows will be in the next one, or "wait".
        restore_threads: threads that insert rows at once during a restore, each into another table; at
            least one for each variable that is restored at the same time, up to a quarter of
            `read_threads`.
        read_threads: threads that read at once during a restore, each about a megabyte; on remote
            storage, where one stream is slow, that is how many streams there are.
        steal_lock: take the directory from another trainer that seems to be alive.
        progress: show a progress bar during restore; None shows it on terminals.
        log_dir: where TensorBoard looks for event files; each checkpoint writes its scalars, and a
            histogram of update rates, there as `adaptcp/*`. None writes none.
    """

    strategy: str | Policy = "adaptive"
    hot_threshold: float | None = None
    hysteresis: float = 0.1
    base_every: int | None = None
    mean_secs_between_failures: float | None = None
    rate_half_life_intervals: float = 16.0
    encoding: str = RAW
    slot_encoding: str = RAW
    exact: bool = False
    max_to_keep: int | None = 3
    keep_period: int | None = None
    local_dir: str | None = None
    local_bytes: int | None = None
    max_writers: int = 4
    upload_threads: int = 8
    upload_patience_secs: float = 600.0
    when_busy: str = "skip"
    restore_threads: int = 2
    read_threads: int = READ_THREADS
    steal_lock: bool = False
    progress: bool | None = None
    log_dir: str | None = None

    def __post_init__(self) -> None:
        self._check(
            "strategy",
            not isinstance(self.strategy, str) or self.strategy in STRATEGIES,
            f"one of {', '.join(STRATEGIES)}, or a policy object",
        )
        self._check(
            "hot_threshold",
            self.hot_threshold is None or 0 <= self.hot_threshold <= 1,
            "a rate from 0 to 1, or None",
        )
        self._check("hysteresis", 0 <= self.hysteresis < 1, "a fraction from 0 to below 1")
        for name in ("base_every", "max_to_keep", "keep_period", "local_bytes"):
            value = getattr(self, name)
            self._check(name, value is None or _is_positive(value), "a positive integer or None")
        self._check(
            "base_every",
            self.strategy != "incremental_n" or self.base_every,
            "a number of checkpoints, which the strategy 'incremental_n' needs",
        )
        self._check(
            "mean_secs_between_failures",
            self.mean_secs_between_failures is None or self.mean_secs_between_failures > 0,
            "a positive number of seconds, or None",
        )
        self._check(
            "rate_half_life_intervals",
            0 < self.rate_half_life_intervals < math.inf,
            "a positive number of intervals",
        )
        for name in ("encoding", "slot_encoding"):
            value = getattr(self, name)
            self._check(name, value in ENCODINGS, f"one of {', '.join(ENCODINGS)}")
            self._check(name, not self.exact or value == RAW, f"{RAW!r}, since exact=True")
        for name in ("restore_threads", "read_threads", "max_writers", "upload_threads"):
            self._check(name, _is_positive(getattr(self, name)), "a positive integer")
        self._check(
            "local_bytes",
            self.local_bytes is None or self.local_dir is not None,
            "None without a local_dir",
        )
        self._check(
            "upload_patience_secs",
            0 <= self.upload_patience_secs < math.inf,
            "a number of seconds, 0 for a single try",
        )
        self._check("when_busy", self.when_busy in ("skip", "wait"), "'skip' or 'wait'")

    def _check(self, name: str, valid: bool, expected: str) -> None:
        if not valid:
            raise errors.InvalidOptionError(
                f"Invalid value for {name}. Received: {getattr(self, name)!r}. "
                f"Expected: {expected}."
            )


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
