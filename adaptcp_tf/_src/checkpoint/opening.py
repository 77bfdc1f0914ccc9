# SPDX-License-Identifier: Apache-2.0
"""Opens the tiers: takes the directory and the buffer, and sets to work who saves and uploads."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.observers import Observers
from adaptcp_tf._src.checkpoint.options import CheckpointOptions
from adaptcp_tf._src.checkpoint.outcomes import Outcomes
from adaptcp_tf._src.checkpoint.saving import Saver
from adaptcp_tf._src.checkpoint.second_tier import SecondTier
from adaptcp_tf._src.checkpoint.slowdown import SlowdownMeter
from adaptcp_tf._src.history import HistoryLog
from adaptcp_tf._src.manifest import Tiers
from adaptcp_tf._src.policy import Policy, make_policy
from adaptcp_tf._src.reports import StorageStats
from adaptcp_tf._src.storage.lock import DirectoryLock
from adaptcp_tf._src.summaries import SummaryLog

logger = logging.getLogger("adaptcp_tf")


@dataclasses.dataclass(frozen=True)
class OpenTiers:
    """Tiers that are locked, and who works on them.

    Attributes:
        saver: turns cuts into checkpoints.
        second: takes them to the directory; None when there is no buffer.
    """

    saver: Saver
    second: SecondTier | None

    def stats(self) -> StorageStats:
        """How far the tiers are."""
        newest = self.saver.newest_step
        if self.second is None:
            return StorageStats(local_step=newest, remote_step=newest)
        return self.second.stats(newest)


def policy_of(options: CheckpointOptions) -> Policy:
    """Makes the policy that the options describe.

    Raises:
        InvalidOptionError: they describe none.
    """
    return make_policy(
        options.strategy,
        hot_threshold=options.hot_threshold,
        hysteresis=options.hysteresis,
        base_every=options.base_every,
        mean_secs_between_failures=options.mean_secs_between_failures,
    )


def open_tiers(
    tiers: Tiers,
    options: CheckpointOptions,
    policy: Policy,
    slowdown: SlowdownMeter,
    outcomes: Outcomes,
    *,
    device_of: Callable[[str, int], str],
    held: contextlib.ExitStack,
) -> OpenTiers:
    """Locks the tiers, and goes on with uploads that an earlier process left behind.

    Args:
        tiers: the directory and, if there is one, its buffer.
        options: how to save and keep.
        policy: what to save.
        slowdown: measures how much longer steps are meanwhile.
        outcomes: where results are noted.
        device_of: the device of a group's shard, by name and number.
        held: gets what gives all of it back; is as before after an error.

    Raises:
        DirectoryLockedError: another trainer uses the directory or the buffer.
        InvalidOptionError: the buffer is that of another directory.
        StorageError: one of them cannot be used.
    """

    def start_anew() -> None:
        saver.previous = None

    with contextlib.ExitStack() as stack:
        lock = DirectoryLock(tiers.directory).acquire(steal=options.steal_lock)
        stack.callback(_give_back, lock)
        observers = Observers()
        stack.callback(observers.close)
        observers.add(HistoryLog(tiers))
        second = None
        if tiers.local is not None:
            second = SecondTier(tiers, lock, options, outcomes, observers, device_of, start_anew)
            stack.callback(second.stop)
            lock = second.lock
        saver = Saver(tiers, lock, second, policy, slowdown, options, outcomes, observers)
        opened = OpenTiers(saver, second)
        if options.log_dir is not None:
            observers.add(SummaryLog(options.log_dir, opened.stats))
        if second is not None:
            second.start()
        held.push(stack.pop_all())
    return opened


def _give_back(lock: DirectoryLock) -> None:
    try:
        lock.release()
    except errors.StorageError as error:
        # A process of this host takes it over once this one has ended.
        logger.warning("the lock of %r stays: %s", lock.directory, error)
