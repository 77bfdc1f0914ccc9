# SPDX-License-Identifier: Apache-2.0
"""Reports of checkpoints in memory: the newest ones, however long a training goes on."""

import dataclasses

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.checkpoint.outcomes import MOST_REPORTS, Outcomes
from adaptcp_tf._src.reports import SaveReport
from tests.support import tables

NEWEST = 3 * MOST_REPORTS


def report_of(step):
    values = {field.name: 0 for field in dataclasses.fields(SaveReport)}
    return SaveReport(**{**values, "step": step, "seconds_to_uploaded": None})


@pytest.fixture
def outcomes():
    """After a long training."""
    outcomes = Outcomes("/data/run1")
    for step in range(1, NEWEST + 1):
        outcomes.add(report_of(step))
    return outcomes


def test_newest_reports_are_kept(outcomes):
    steps = [report.step for report in outcomes.reports]
    assert steps == list(range(NEWEST - MOST_REPORTS + 1, NEWEST + 1))
    assert outcomes.report(NEWEST).step == NEWEST


def test_whoever_asks_for_an_old_one_is_told_where_it_is(outcomes):
    with pytest.raises(
        errors.CheckpointNotFoundError,
        match=rf"step 7.*newest {MOST_REPORTS}.*steps 2001 to 3000.*history.*'/data/run1'",
    ):
        outcomes.report(7)


def test_upload_of_an_old_one_completes_nothing(outcomes):
    assert outcomes.uploaded(7, wall_time=0.0) is None
    assert outcomes.uploaded(NEWEST, wall_time=0.0).seconds_to_uploaded > 0
    assert outcomes.report(NEWEST).seconds_to_uploaded > 0
    assert len(outcomes.reports) == MOST_REPORTS


def test_step_that_is_saved_anew_is_the_newest(outcomes):
    outcomes.add(report_of(NEWEST - 1))
    assert [report.step for report in outcomes.reports][-2:] == [NEWEST, NEWEST - 1]


def test_manager_tells_of_one_checkpoint(tmp_path):
    variable = tables.make_variable()
    manager = tables.manage(tmp_path, variable)
    with pytest.raises(errors.CheckpointNotFoundError, match=r"step 5.*no report yet"):
        manager.report(5)
    tables.fill(variable, range(10))
    manager.save(5)
    manager.wait()
    assert manager.report(5) == manager.reports[0]
    with pytest.raises(errors.CheckpointNotFoundError, match=r"step 6.*steps 5 to 5"):
        manager.report(6)
    manager.close()
