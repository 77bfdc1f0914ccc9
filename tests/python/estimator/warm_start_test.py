# SPDX-License-Identifier: Apache-2.0
"""A training that starts with rows of another one, all of them or some."""

import pytest

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import sessions

NAMES = ("user", "item")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The directory of a training of 9 steps, and what it ended with."""
    directory = tmp_path_factory.mktemp("other")
    return directory, sessions.Training(NAMES).run(hook(directory), 9)


def hook(directory, **arguments):
    return acp.estimator.AdaptiveCheckpointHook(str(directory), save_steps=5, **arguments)


def started(directory, other, **arguments):
    """What a training starts with."""
    start = acp.estimator.WarmStart(str(other), **arguments)
    return sessions.Training(NAMES).run(hook(directory, warm_start=start), 0)


def tables(contents):
    return {name: rows for name, rows in contents.items() if isinstance(rows, dict)}


def dense(contents):
    return {name: value for name, value in contents.items() if not isinstance(value, dict)}


def test_rows_alone(tmp_path, other):
    directory, ended = other
    rows = tables(started(tmp_path, directory))
    assert {name for name in rows if rows[name]} == set(NAMES)
    assert all(rows[name] == ended[name] for name in NAMES)


def test_one_variable_alone(tmp_path, other):
    directory, ended = other
    rows = tables(started(tmp_path, directory, groups=["user"], slots=True))
    assert {name for name in rows if rows[name]} == {n for n in tables(ended) if "user" in n}
    assert rows["user"] == ended["user"]


def test_everything_but_the_global_step(tmp_path, other):
    directory, ended = other
    contents = started(tmp_path, directory, slots=True, dense=True)
    assert tables(contents) == tables(ended)
    assert [n for n in dense(ended) if contents[n] != ended[n]] == ["global_step"]


def test_a_checkpoint_of_its_own_comes_first(tmp_path, other):
    directory, _ = other
    start = acp.estimator.WarmStart(str(directory))
    first = sessions.Training(NAMES).run(hook(tmp_path, warm_start=start), 5)
    again = hook(tmp_path, warm_start=start)
    assert sessions.Training(NAMES).run(again, 5) == first
    assert again.restored.step == 5


def test_first_checkpoint_after_it_holds_all_rows(tmp_path, other):
    directory, _ = other
    contents = started(tmp_path, directory, slots=True)
    restored = hook(tmp_path)
    assert tables(sessions.Training(NAMES).run(restored, 0)) == tables(contents)


def test_variables_that_the_other_training_has_not_are_refused(tmp_path, other):
    with pytest.raises(errors.InvalidOptionError, match=r"(?s)nobody.*item, user"):
        started(tmp_path, other[0], groups=["nobody"])
