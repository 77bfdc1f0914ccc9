# SPDX-License-Identifier: Apache-2.0
"""Who a process is, and whether a process met earlier still runs."""

from __future__ import annotations

import dataclasses
import os
import socket


@dataclasses.dataclass(frozen=True)
class ProcessIdentity:
    """What tells one process from every other, also after its pid was given to another one.

    Attributes:
        host: the name of the host.
        boot_id: the kernel's id of the current boot, "" where unknown. Containers of one machine
            share it.
        pid_namespace: the namespace `pid` counts in, "" where unknown. Containers differ in it.
        pid: the process id.
        start_ticks: when the process started, in clock ticks since boot; None where unknown.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_ticks: int | None


def current_process() -> ProcessIdentity:
    """Identifies the calling process.

    Example:
        >>> is_running(current_process())
        True

    Returns:
        The identity of the calling process.
    """
    status = _status(os.getpid())
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=_read_text("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_read_link("/proc/self/ns/pid"),
        pid=os.getpid(),
        start_ticks=None if status is None else status[1],
    )


def is_running(process: ProcessIdentity) -> bool:
    """Tells whether a process of this kernel and pid namespace still runs.

    Example:
        >>> is_running(dataclasses.replace(current_process(), start_ticks=0))
        False

    Args:
        process: the process, as `current_process` described it when it ran.

    Returns:
        False if its pid is free, is a zombie, or belongs to a process that started at another
        time; True otherwise, also when that cannot be told.
    """
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # It exists and is somebody else's.
    status = _status(process.pid)
    if status is None:
        return True
    state, start_ticks = status
    if state in "ZX":
        return False
    return process.start_ticks is None or process.start_ticks == start_ticks


def _status(pid: int) -> tuple[str, int] | None:
    """Returns state letter and start time in ticks from /proc, or None where there is no such."""
    text = _read_text(f"/proc/{pid}/stat")
    # The command name, in parentheses, may hold blanks and parentheses itself.
    fields = text[text.rfind(")") + 1 :].split()
    if len(fields) < 20:
        return None
    return fields[0], int(fields[19])


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
