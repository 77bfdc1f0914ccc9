# SPDX-License-Identifier: Apache-2.0
"""A terminal that stands for the standard error of this process."""

import contextlib
import os
import pty
import sys
import threading


class Shown:
    """What a terminal was sent."""

    def __init__(self):
        self.data = b""

    def __contains__(self, text):
        return text.encode() in self.data


@contextlib.contextmanager
def standard_error_is_one(monkeypatch):
    """Yields what is shown; complete when the context has ended."""
    shown = Shown()
    terminal, other_end = pty.openpty()

    def read():
        # Reading a terminal whose other end is closed fails once it is empty.
        with contextlib.suppress(OSError):
            while True:
                shown.data += os.read(terminal, 1 << 16)

    reader = threading.Thread(target=read)
    reader.start()
    monkeypatch.setenv("TERM", "xterm-256color")
    try:
        with (
            os.fdopen(other_end, "w", encoding="utf-8") as stream,
            monkeypatch.context() as patched,
        ):
            patched.setattr(sys, "stderr", stream)
            yield shown
    finally:
        reader.join()
        os.close(terminal)
