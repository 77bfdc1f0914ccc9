# SPDX-License-Identifier: Apache-2.0
"""The Criteo-like stream: reproducible, random access, and statistically like the real log."""

import numpy as np
import pytest
from workloads.criteo_stream import (
    CARDINALITIES,
    EXPONENTS,
    FEATURE_SHIFT,
    CriteoStream,
    Zipf,
    feature_id,
)


def assert_batches_equal(left, right):
    for one, other in zip(left, right):
        np.testing.assert_array_equal(one, other)


def test_batch_needs_no_batches_before_it():
    drawn_in_order = CriteoStream(64, seed=3).batches(0, 6)
    alone = CriteoStream(64, seed=3).batch(5)
    assert_batches_equal(alone, (part[5] for part in drawn_in_order))


def test_batches_and_seeds_differ():
    stream = CriteoStream(64, seed=3)
    assert (stream.batch(0).ids != stream.batch(1).ids).any()
    assert (stream.batch(0).ids != CriteoStream(64, seed=4).batch(0).ids).any()


def test_shapes_and_dtypes():
    ids, dense, labels = CriteoStream(8).batch(0)
    assert (ids.shape, ids.dtype) == ((8, 26), np.int64)
    assert (dense.shape, dense.dtype) == ((8, 13), np.float32)
    assert (labels.shape, labels.dtype) == ((8, 1), np.float32)
    assert np.isfinite(dense).all() and (dense >= 0).all()


def test_high_bits_of_an_id_tell_its_feature():
    ids = CriteoStream(256).batch(0).ids
    np.testing.assert_array_equal(ids >> FEATURE_SHIFT, np.tile(np.arange(1, 27), (256, 1)))


def test_ids_of_distinct_values_are_distinct():
    values = np.arange(200_000)
    assert len(np.unique(feature_id(26, values))) == len(values)


def test_number_of_distinct_ids_is_that_of_the_real_log():
    # The real log has 13,300 to 13,750 in 2,048 lines, and 2,500 to 2,700 in 256.
    assert 13_000 < len(np.unique(CriteoStream(2048).batch(7).ids)) < 14_000
    assert 2_400 < len(np.unique(CriteoStream(256).batch(7).ids)) < 2_800


def test_new_ids_keep_arriving_and_few_repeat_from_the_batch_before():
    batches = CriteoStream(256).batches(0, 32).ids
    last = np.unique(batches[-1])
    assert 0.25 < 1 - np.isin(last, batches[:-1]).mean() < 0.45  # the real log: a third
    assert 0.20 < np.isin(last, batches[-2]).mean() < 0.30  # the real log: a quarter


def test_labels_are_mostly_negative_and_depend_on_the_ids():
    ids, _, labels = CriteoStream(20_000).batch(0)
    assert 0.17 < labels.mean() < 0.27  # the real log: 22 %
    rates = [labels[ids[:, 8] == value].mean() for value in np.unique(ids[:, 8])]
    assert max(rates) > 1.2 * min(rates)


@pytest.mark.parametrize("n, exponent", [(3, 1.2), (5_000, 1.05), (300_000, 1.0), (10**6, 1.22)])
def test_zipf_draws_each_range_of_ranks_with_its_probability(n, exponent):
    draws = Zipf(n, exponent).ranks((np.arange(500_000) + 0.5) / 500_000)
    assert draws.min() == 1 and draws.max() <= n
    weights = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    edges = [edge for edge in (1, 2, 5, 100, 4_000, 5_000, 10**5, 10**6) if edge <= n] + [n + 1]
    for low, high in zip(edges, edges[1:]):
        expected = weights[low - 1 : high - 1].sum() / weights.sum()
        assert ((draws >= low) & (draws < high)).mean() == pytest.approx(expected, abs=2e-5)


def test_popular_ids_are_those_most_often_drawn():
    stream = CriteoStream(2048)
    popular = stream.popular_ids(10_000)
    assert len(np.unique(popular)) == 10_000
    drawn, counts = np.unique(stream.batches(0, 20).ids, return_counts=True)
    top = drawn[np.argsort(-counts)[:1_000]]
    assert np.isin(top, popular).mean() > 0.99
    np.testing.assert_array_equal(popular[:50], stream.popular_ids(50))


def test_all_ids_can_be_asked_for_and_no_more():
    assert len(CARDINALITIES) == len(EXPONENTS) == 26
    assert len(CriteoStream().popular_ids(0)) == 0
    with pytest.raises(ValueError, match=r"Invalid count of ids. Received: -1"):
        CriteoStream().popular_ids(-1)
    with pytest.raises(ValueError, match=f"Expected: 0 to {sum(CARDINALITIES)}"):
        CriteoStream().popular_ids(sum(CARDINALITIES) + 1)
