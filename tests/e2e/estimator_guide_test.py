# SPDX-License-Identifier: Apache-2.0
"""docs/ESTIMATOR.md is a program: its pieces run one after the other, in a new process."""

import re

from adaptcp_tf._src.manifest import Tiers
from tests.support import processes

GUIDE = processes.ROOT / "docs" / "ESTIMATOR.md"


def test_guide_runs(tmp_path):
    pieces = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    script = "import os, sys\nos.chdir(sys.argv[1])\n" + "\n".join(pieces)
    printed = processes.run(script, tmp_path).stdout
    assert "'global_step': 100" in printed
    assert Tiers(str(tmp_path / "run/tables")).latest_step() == 300
    assert Tiers(str(tmp_path / "other/tables")).latest_step() == 100
