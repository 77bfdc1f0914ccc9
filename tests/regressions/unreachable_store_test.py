# SPDX-License-Identifier: Apache-2.0
"""A store that does not answer looked like an empty one: training would have started from scratch.

`tf.io.gfile.listdir` reports NotFoundError for a directory of which the store did not say whether it
is one.
"""

import contextlib

import pytest

import adaptcp_tf as acp
from adaptcp_tf import errors
from adaptcp_tf._src.manifest import CheckpointStore
from adaptcp_tf._src.storage import files
from tests.support import fitting, models, tables
from tests.support.stores import slow_store


@pytest.fixture
def store(tmp_path):
    """A directory with two checkpoints."""
    slow_store.configure()
    directory = f"{slow_store.url(tmp_path)}/run"
    variable = tables.make_variable()
    manager = tables.manage(directory, variable)
    for step in (1, 2):
        tables.fill(variable, range(50), seed=step)
        manager.save(step)
    manager.close()
    yield directory
    slow_store.configure()


def test_steps_of_a_store_that_does_not_answer_are_not_none(store):
    slow_store.configure(failure_rate=1.0)
    for ask in (CheckpointStore(store).latest_step, CheckpointStore(store).all_steps):
        with pytest.raises(errors.StorageError, match="injected failure"):
            ask()


def test_directory_that_is_not_there_is_told_from_one_that_does_not_answer(store):
    with pytest.raises(errors.StorageNotFoundError):
        files.list_dir(f"{store}/nothing")
    assert CheckpointStore(f"{store}/nothing").latest_step() is None


def test_fit_does_not_start_from_scratch(store):
    slow_store.configure(failure_rate=1.0)
    with pytest.raises(errors.StorageError):
        acp.keras.AdaptiveCheckpoint(store)


@pytest.mark.parametrize("seed", range(30))
def test_answers_of_a_store_that_fails_at_times_are_true(store, seed):
    slow_store.configure(failure_rate=0.4, seed=seed)
    answered = CheckpointStore(store)
    for _ in range(10):
        with contextlib.suppress(errors.StorageError):
            assert answered.all_steps() == [1, 2]


@pytest.mark.parametrize("seed", range(6))
def test_retention_deletes_nothing_that_is_needed(tmp_path, seed):
    """Manifests that could not be listed must not make their segments look like garbage."""
    slow_store.configure()
    directory = f"{slow_store.url(tmp_path)}/run"
    variable, fresh = (tables.make_variable() for _ in range(2))
    manager = tables.manage(directory, variable, max_to_keep=2, strategy="incremental")
    for step in range(1, 16):
        tables.fill(variable, range(step, step + 30), seed=step)
        slow_store.configure(failure_rate=0.1, seed=100 * seed + step)
        with contextlib.suppress(errors.CheckpointFailedError, errors.StorageError):
            manager.save(step)
            manager.wait()
        slow_store.configure()
        manager.take_failure()
        # Not fewer than retention is to keep of those that were committed, and all of them whole.
        committed = [report.step for report in manager.reports]
        assert manager.all_steps()[-2:] == committed[-2:]
        for kept in manager.all_steps():
            CheckpointStore(directory).validate(CheckpointStore(directory).read(kept))
    tables.fill(variable, range(9), seed=99)
    manager.save(99)
    manager.close()
    other = tables.manage(directory, fresh)
    other.restore()
    other.close()
    assert tables.rows_of(fresh) == tables.rows_of(variable)


def test_training_goes_on_where_it_was_once_the_store_answers(tmp_path):
    slow_store.configure()
    directory = f"{slow_store.url(tmp_path)}/run"

    def dataset():
        return models.dataset(fitting.BATCHES)

    whole = fitting.plain(dataset)
    fitting.start(directory, dataset, stop_after=10)
    slow_store.configure(failure_rate=1.0)
    with pytest.raises(errors.StorageError):
        fitting.start(directory, dataset)
    slow_store.configure()
    assert fitting.start(directory, dataset).parts == whole.parts
