# SPDX-License-Identifier: Apache-2.0
"""The examples in the docstrings of the manifest modules run as they stand."""

import doctest

import pytest

from adaptcp_tf._src.manifest import (
    chain,
    checks,
    codec,
    faults,
    fields,
    identities,
    names,
    retention,
    store,
)
from tests.python.manifest import samples


@pytest.mark.parametrize(
    "module", [chain, checks, codec, faults, fields, identities, names, retention, store]
)
def test_examples_run(module, tmp_path):
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, example in enumerate(finder.find(module)):
        directory = tmp_path / str(number)
        directory.mkdir()
        example.globs["directory"] = str(directory)
        example.globs["manifest"] = samples.delta() if module is not chain else one_chain()
        example.globs["empty_manifest"] = samples.empty_manifest()
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def one_chain():
    """Base, increment and differential of one shard."""
    delta = samples.delta()
    segments = [samples.segment("base", 2), samples.segment("increment", 3)]
    segments.append(samples.segment("differential", 4))
    return type(delta)(
        step=1200,
        interval=4,
        kind="delta",
        base_interval=2,
        segments=tuple(segments),
        groups=(samples.group(),),
    )
