# SPDX-License-Identifier: Apache-2.0
"""The examples in the docstrings of the storage modules run as they stand."""

import doctest

import pytest

from adaptcp_tf._src.storage import checksums, failures, files, kernel_lock, lock, process, trees


@pytest.mark.parametrize("module", [checksums, failures, files, kernel_lock, lock, process, trees])
def test_examples_run(module, tmp_path):
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, example in enumerate(finder.find(module)):
        directory = tmp_path / str(number)
        directory.mkdir()
        example.globs.update({**vars(files), **example.globs, "directory": str(directory)})
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
