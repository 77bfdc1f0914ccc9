# SPDX-License-Identifier: Apache-2.0
"""A piece of work on a thread of its own."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def beside(work: Callable[[], _T], name: str) -> concurrent.futures.Future[_T]:
    """Runs something beside the caller; unlike an executor also while the interpreter ends.

    Args:
        work: what to run.
        name: of the thread.

    Returns:
        Its result, or what it raised. If no thread can be had, it has run already.
    """
    future: concurrent.futures.Future[_T] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    try:
        threading.Thread(target=run, name=name).start()
    except RuntimeError:
        run()
    return future
