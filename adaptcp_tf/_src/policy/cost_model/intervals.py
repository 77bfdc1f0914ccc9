# SPDX-License-Identifier: Apache-2.0
"""The ratio of costs, and the base period and interval that lose the least time."""

from __future__ import annotations

import math

from adaptcp_tf._src.policy.cost_model.bisection import bisect
from adaptcp_tf._src.policy.cost_model.checks import (
    as_count,
    check,
    check_not_negative,
    check_positive,
    check_share,
)


def rho_of_row_size(
    rho: float,
    row_bytes: float,
    *,
    write_overhead_bytes: float = 0.0,
    read_overhead_bytes: float = 0.0,
) -> float:
    """Returns the ratio of read to write cost for rows of one size.

    Where both costs are proportional to bytes the row's size cancels. Overhead per row (a key, a
    checksum, a look-up, expressed as the bytes that take as long) does not: a row costs
    w (bytes + write overhead) and r (bytes + read overhead). So each size has its own ratio, and
    with it its own threshold.

    Example:
        >>> rho_of_row_size(2.0, row_bytes=64, write_overhead_bytes=16, read_overhead_bytes=96)
        4.0

    Args:
        rho: ratio of read to write cost of a byte.
        row_bytes: bytes of a row.
        write_overhead_bytes: what writing a row costs beyond its bytes, in bytes.
        read_overhead_bytes: what reading a row costs beyond its bytes, in bytes.

    Returns:
        The ratio of read to write cost of a row.

    Raises:
        InvalidOptionError: `row_bytes` is not positive, or another argument is negative.
    """
    check(rho >= 0, "rho", rho, "at least 0")
    check_positive("row_bytes", row_bytes)
    check_not_negative("write_overhead_bytes", write_overhead_bytes)
    check_not_negative("read_overhead_bytes", read_overhead_bytes)
    return rho * (row_bytes + read_overhead_bytes) / (row_bytes + write_overhead_bytes)


def measured_rho(
    checkpoints: int,
    interval_secs: float,
    mean_secs_between_failures: float,
    restore_secs_per_byte: float,
    training_secs_lost_per_byte: float,
) -> float:
    """Returns the ratio of read to write cost from what can be measured.

    A base period of N intervals of T seconds sees N T / M failures on average, M being the mean
    time between them. Each costs the restore's seconds per byte read, each byte written costs the
    seconds that training loses to it, so rho = (N T / M) (restore / lost). Writes that hide behind
    training lose less, which raises rho and lowers the threshold.

    Example:
        >>> measured_rho(10, 600.0, 60_000.0, 2e-9, 1e-9)
        0.2

    Args:
        checkpoints: checkpoints per base period.
        interval_secs: seconds from one checkpoint to the next.
        mean_secs_between_failures: infinite if there are none.
        restore_secs_per_byte: seconds a restore takes per byte that it reads.
        training_secs_lost_per_byte: seconds by which writing a byte delays training.

    Returns:
        The ratio; infinite if writing delays nothing.

    Raises:
        InvalidOptionError: an argument is out of its range, or neither reading nor writing costs
            anything.
    """
    as_count("checkpoints", checkpoints)
    check_positive("interval_secs", interval_secs)
    check(
        mean_secs_between_failures > 0,
        "mean_secs_between_failures",
        mean_secs_between_failures,
        "a positive number",
    )
    check_not_negative("restore_secs_per_byte", restore_secs_per_byte)
    check_not_negative("training_secs_lost_per_byte", training_secs_lost_per_byte)
    read = checkpoints * interval_secs / mean_secs_between_failures * restore_secs_per_byte
    if training_secs_lost_per_byte > 0:
        return read / training_secs_lost_per_byte
    check(
        read > 0,
        "training_secs_lost_per_byte",
        training_secs_lost_per_byte,
        "a positive number when reading costs nothing either",
    )
    return math.inf


def base_period(
    base_secs: float,
    mean_secs_between_failures: float,
    restore_secs_per_row: float,
    interval_secs: float,
    cold_rows_per_interval: float,
) -> float:
    """Returns the number of checkpoints per base period that loses the least time.

    A base of C seconds every N intervals of T seconds loses C / (N T) of the time. A failure, one
    in M seconds and equally likely after each checkpoint, reads (N + 1) / 2 increments of P rows on
    average, r seconds each. The sum f(N) = C / (N T) + r P (N + 1) / (2 M) is convex, and f'(N) = 0
    gives N = sqrt(2 C M / (r T P)): the interval of Young (1974) with restore time in place of lost
    work. It leaves out what does not depend on N, reading the base, and the growth of the
    differentials, which levels off once the hot rows are in.

    Example:
        >>> base_period(100.0, 20_000.0, 1e-6, 40.0, 1e6)
        316.22776601683796

    Args:
        base_secs: seconds that writing a base costs.
        mean_secs_between_failures: mean time between failures.
        restore_secs_per_row: seconds to read one row copy at restore.
        interval_secs: seconds from one checkpoint to the next.
        cold_rows_per_interval: rows in an increment that a restore reads.

    Returns:
        The number of checkpoints, not rounded; below 1 every checkpoint should be a base.

    Raises:
        InvalidOptionError: an argument is not a positive number.
    """
    check_positive("base_secs", base_secs)
    check_positive("mean_secs_between_failures", mean_secs_between_failures)
    check_positive("restore_secs_per_row", restore_secs_per_row)
    check_positive("interval_secs", interval_secs)
    check_positive("cold_rows_per_interval", cold_rows_per_interval)
    restore_secs_per_interval = restore_secs_per_row * cold_rows_per_interval
    return math.sqrt(
        2 * base_secs * mean_secs_between_failures / (restore_secs_per_interval * interval_secs)
    )


def checkpoint_interval(
    fixed_secs: float,
    secs_at_one_second: float,
    mean_secs_between_failures: float,
    *,
    growth: float = 0.75,
) -> float:
    """Returns the seconds between checkpoints that lose the least time.

    Young (1974) and, to first order, Daly (2006) balance the cost of a checkpoint against the work
    lost with a failure, T / 2 on average. Here the cost grows with the interval, since the rows
    touched in T seconds grow like T^g: f(T) = (sigma + c T^g) / T + T / (2 M), and T^2 f'(T) = 0
    gives sigma + c (1 - g) T^g = T^2 / (2 M). Divided by T^g the left side falls and the right side
    rises with T, so there is one solution. With g = 1 the rows do not matter and Young's
    sqrt(2 sigma M) remains. Like it, this holds for intervals well below M.

    Example:
        >>> checkpoint_interval(2.0, 0.0, 10_000.0)
        200.0

    Args:
        fixed_secs: seconds a checkpoint costs training whatever it holds.
        secs_at_one_second: seconds that the rows touched in one second add to it; those touched in
            T seconds add `secs_at_one_second * T ** growth`.
        mean_secs_between_failures: mean time between failures.
        growth: exponent by which touched rows grow with the interval, 0 to 1.

    Returns:
        The interval in seconds.

    Raises:
        InvalidOptionError: an argument is out of its range, or the cost does not limit how often a
            checkpoint pays.
    """
    check_not_negative("fixed_secs", fixed_secs)
    check_not_negative("secs_at_one_second", secs_at_one_second)
    check_positive("mean_secs_between_failures", mean_secs_between_failures)
    check_share("growth", growth)
    growing = secs_at_one_second * (1 - growth)
    check(
        fixed_secs + growing > 0,
        "fixed_secs",
        fixed_secs,
        "a positive number when the rows add nothing, or grow in step with the interval",
    )

    def if_both_cost(factor: float) -> float:
        scale = factor * mean_secs_between_failures
        return max(math.sqrt(scale * fixed_secs), (scale * growing) ** (1 / (2 - growth)))

    def is_too_long(secs: float) -> bool:
        return secs**2 > 2 * mean_secs_between_failures * (fixed_secs + growing * secs**growth)

    # The sum of the two costs lies between the larger and twice the larger.
    return bisect(is_too_long, if_both_cost(2.0), if_both_cost(4.0))
