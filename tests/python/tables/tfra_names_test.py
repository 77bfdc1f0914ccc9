# SPDX-License-Identifier: Apache-2.0
"""Names of TFRA's files; tests of exports compare them with those TFRA gives."""

import doctest

import pytest

from adaptcp_tf._src.tables import tfra_names


def test_examples_run():
    assert doctest.testmod(tfra_names).failed == 0


@pytest.mark.parametrize(
    ("group", "table", "variable"),
    [
        ("emb", "frequency", "emb/frequency"),
        ("emb", "emb/x", "emb/emb/x"),
        ("s/emb", "s/status/s/emb/timestamp", "s/status/s/emb/timestamp"),
    ],
)
def test_variable_of_a_table(group, table, variable):
    assert tfra_names.variable_name(group, table) == variable
