# SPDX-License-Identifier: Apache-2.0
"""A variable that is saved to a slow store through an SSD buffer."""

import contextlib

from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from tests.support import tables
from tests.support.stores import slow_store

ROWS = 400


class Run:
    """One variable, saved to a slow store through a buffer."""

    def __init__(self, tmp_path):
        self.local = tmp_path / "buffer"
        self.remote = tmp_path / "remote"
        self.directory = slow_store.url(self.remote)
        self.variable = tables.make_variable()
        self.expected = {}
        self.lock_is_left = False
        self.managers = contextlib.ExitStack()

    def manage(self, variable=None, **options):
        defaults = {"local_dir": str(self.local), "base_every": 4, "upload_patience_secs": 0.0}
        # A lock that could not be given back is this process's own.
        defaults["steal_lock"] = self.lock_is_left
        manager = tables.manage(
            self.directory, variable or self.variable, **{**defaults, **options}
        )
        self.managers.callback(manager.close)
        return manager

    def save(self, manager, step, rows=ROWS):
        """Trains a little and saves it; durable in the buffer on return."""
        tables.fill(self.variable, range(step, step + rows), seed=step)
        self.expected[step] = tables.rows_of(self.variable)
        begun = False
        while not begun:
            with self.upload_may_fail():
                manager.save(step)
                begun = True
        with self.upload_may_fail():
            manager.wait(local=True)

    @contextlib.contextmanager
    def upload_may_fail(self):
        """Lets pass that an upload was given up, which any call may tell."""
        try:
            yield
        except errors.CheckpointFailedError as error:
            if "could not be uploaded" not in str(error):
                raise

    def close_while_away(self, manager):
        """As a process ends that cannot reach the store any more."""
        stop_answering()
        manager.close()
        slow_store.configure()
        self.lock_is_left = True

    def restored(self, step=None, **options):
        """What a fresh process restores."""
        fresh = tables.make_variable()
        manager = self.manage(fresh, **options)
        manager.restore(step)
        manager.close()
        return tables.rows_of(fresh)


@contextlib.contextmanager
def running(tmp_path):
    """A Run whose store answers at once, before and after; closes its managers."""
    slow_store.configure()
    run = Run(tmp_path)
    yield run
    slow_store.configure()
    run.managers.close()


def files_of(directory):
    """Path -> bytes, of everything that belongs to checkpoints."""
    paths = [p for p in directory.rglob("*") if p.is_file()]
    return {
        str(p.relative_to(directory)): p.read_bytes()
        for p in paths
        if not p.name.startswith("adaptcp") and p.parent.name != "history"
    }


def steps_in(directory):
    return CheckpointStore(directory).all_steps()


def stop_answering():
    slow_store.configure(failure_rate=1.0)


def segment_bytes(directory):
    """How large the files of checkpoints are together, manifests apart."""
    return sum(len(data) for name, data in files_of(directory).items() if "segments" in name)
