# SPDX-License-Identifier: Apache-2.0
"""Processes: the running are told from the dead, also when a pid is used again."""

import dataclasses
import os

from adaptcp_tf._src.storage.process import current_process, is_running
from tests.python.storage.children import start


def test_running_processes_are_told_from_dead_ones():
    child = start("input()")
    me = current_process()
    assert is_running(me)
    assert is_running(dataclasses.replace(me, start_ticks=None))
    assert is_running(dataclasses.replace(me, pid=1, start_ticks=None))
    assert not is_running(dataclasses.replace(me, pid=2**22 + 1))
    assert not is_running(dataclasses.replace(me, pid=10**30))
    child.kill()
    child.communicate()
    assert not is_running(dataclasses.replace(me, pid=child.pid, start_ticks=None))


def test_process_of_another_user_is_running(monkeypatch):
    def refuse(*unused):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    assert is_running(current_process())
