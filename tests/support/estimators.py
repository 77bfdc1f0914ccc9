# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2.15 is the last with Estimators: elsewhere no test of them is collected."""

from importlib import metadata

# Not asked of TensorFlow, which takes seconds to import.
EXIST = metadata.version("tensorflow").startswith("2.15.")


def runnable(scripts):
    """Those of some scripts, by name, that can run here."""
    return {name: of for name, of in scripts.items() if EXIST or not name.startswith("estimator_")}
