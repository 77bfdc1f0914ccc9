# SPDX-License-Identifier: Apache-2.0
"""Trainings in processes of their own that are killed with SIGKILL, again and again."""

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time

from adaptcp_tf._src.manifest.names import is_attempt_dir, parse_manifest_name
from tests.support import processes

_DEADLINE_SECS = 300


class Trainer:
    """A process that trains and saves to a directory; ends when its context does.

    Args:
        command: arguments of the Python interpreter.
        directory: where the process keeps its checkpoints; a path.
        log: file that gets what the process says.
        environment: environment variables that it has besides those of all processes.
    """

    def __init__(self, command, directory, log, environment=None):
        self.directory = directory
        self._log = log
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                env={**processes.ENVIRONMENT, **(environment or {})},
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._process.kill()
        self._process.wait()

    def wait(self):
        """Waits for its end; returns its exit status."""
        return self._process.wait(_DEADLINE_SECS)

    def finish(self):
        """Waits for its successful end."""
        assert self.wait() == 0, self._log.read_text()[-3000:]

    def kill_when(self, condition, delay_secs=0.0):
        """Kills it as soon as `condition()` holds, or so long after."""
        deadline = time.monotonic() + _DEADLINE_SECS
        while not condition():
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, "nothing happened for minutes"
            time.sleep(0.0005)
        time.sleep(delay_secs)
        assert self._process.poll() is None, "it ended before it could be killed"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def owns_directory(self):
        """Whether it has begun to train: its manager has locked the directory."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            lock = json.loads((self.directory / "adaptcp.lock").read_bytes())
            return lock["process"]["pid"] == self._process.pid
        return False


def newest_step(directory):
    """The step of the newest checkpoint; 0 when there is none."""
    names = os.listdir(directory) if directory.exists() else []
    return max((step for step in map(parse_manifest_name, names) if step is not None), default=0)


def unfinished_attempts(directory):
    """Directories of saves that were going on, or were killed, after the newest checkpoint."""
    segments = directory / "segments"
    newest = newest_step(directory)
    names = os.listdir(segments) if segments.exists() else []
    return [n for n in names if is_attempt_dir(n) and int(n.split("-")[0]) > newest]


@dataclasses.dataclass
class Chain:
    """What became of a training that was killed many times."""

    kills: int = 0
    in_a_save: int = 0
    before_any_progress: int = 0


def kill_again_and_again(command, directory, log, *, kills, last_step, seed):
    """Starts a training, kills it at a random instant, starts it again, ...; the last one finishes.

    Args:
        command: as of `Trainer`.
        directory: as of `Trainer`.
        log: as of `Trainer`.
        kills: how many times.
        last_step: how many steps the training has; the kills are spread over them.
        seed: of the instants.

    Returns:
        The Chain.
    """
    rng = random.Random(seed)
    targets = sorted(rng.sample(range(1, int(0.9 * last_step)), kills))
    chain = Chain()
    for target in targets:
        before = newest_step(directory)
        with Trainer(command, directory, log) as trainer:
            if target <= before or rng.random() < 0.2:
                # While it restores, traces its step, or takes its first steps.
                trainer.kill_when(trainer.owns_directory, rng.uniform(0, 2))
            else:
                trainer.kill_when(lambda t=target: newest_step(directory) >= t, rng.uniform(0, 0.1))
        chain.kills += 1
        chain.in_a_save += bool(unfinished_attempts(directory))
        chain.before_any_progress += newest_step(directory) == before
    with Trainer(command, directory, log) as trainer:
        trainer.finish()
    return chain
