# SPDX-License-Identifier: Apache-2.0
"""The production-like stream: a closed set of ids, of which an interval updates a good part."""

import numpy as np
import pytest
from workloads.production_stream import ProductionStream


def test_ids_are_those_of_the_table():
    stream = ProductionStream(5_000, batch_size=64, seed=2)
    rows = stream.popular_ids(5_000)
    assert len(np.unique(rows)) == 5_000
    ids = stream.batches(0, 3).ids
    assert ids.shape == (3, 64, 26) and np.isin(ids, rows).all()
    np.testing.assert_array_equal(stream.batch(2).ids, ids[2])
    assert (stream.batch(0).ids != ProductionStream(5_000, 64, seed=3).batch(0).ids).any()


def test_frequent_ids_come_first():
    stream = ProductionStream(5_000, batch_size=1_000)
    drawn = stream.batch(0).ids
    assert np.isin(drawn, stream.popular_ids(50)).mean() > 0.3


def test_a_hundred_batches_update_a_fifth_of_four_million_rows():
    ids = ProductionStream(4_000_000).batches(0, 100).ids
    assert 0.10 < len(np.unique(ids)) / 4_000_000 < 0.25


def test_more_rows_than_there_are_are_refused():
    with pytest.raises(ValueError, match="Received: 11. Expected: 0 to 10"):
        ProductionStream(10).popular_ids(11)
