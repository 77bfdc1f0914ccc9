# SPDX-License-Identifier: Apache-2.0
"""Every piece of every guide runs, in order, and prints what the guide says."""

import pytest

from tests.support import estimators, guides, processes

DOCS = processes.ROOT / "docs"
GUIDES = ["KERAS.md", "EXPORT.md", "ON_CALL.md"] + ["ESTIMATOR.md"] * estimators.EXIST


@pytest.mark.parametrize("name", GUIDES)
def test_guide_runs(name, tmp_path):
    folder = tmp_path / "guide"
    folder.mkdir()
    guides.run(DOCS / name, folder)
