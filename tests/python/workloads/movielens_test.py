# SPDX-License-Identifier: Apache-2.0
"""MovieLens-100k arrives whole, checked and in time order."""

import zipfile

import numpy as np
import pytest
from workloads import movielens


def test_ratings_are_complete_and_in_time_order():
    ratings = movielens.load()
    assert len(ratings.users) == 100_000
    assert len(np.unique(ratings.users)) == 943
    assert len(np.unique(ratings.items)) == 1_682
    assert (np.diff(ratings.timestamps) >= 0).all()
    assert set(np.unique(ratings.ratings)) == {1, 2, 3, 4, 5}


def test_samples_are_the_first_by_time():
    whole, part = movielens.load(), movielens.load(100)
    for column, first in zip(whole, part):
        np.testing.assert_array_equal(column[:100], first)


@pytest.mark.parametrize("samples", [0, -1, 100_001])
def test_number_of_samples_is_checked(samples):
    with pytest.raises(ValueError, match=f"Received: {samples}. Expected: 1 to 100000"):
        movielens.load(samples)


def test_equal_times_keep_their_order():
    content = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    content += b"1\t10\t3\t200\n2\t20\t4\t100\n3\t30\t5\t200\n"
    ratings = movielens.parse(content)
    assert ratings.users.tolist() == [2, 1, 3]
    assert ratings.items.tolist() == [20, 10, 30]
    assert ratings.ratings.tolist() == [4, 3, 5]


def test_damaged_cache_is_refused_and_says_what_to_do(tmp_path, monkeypatch):
    cache = tmp_path / "ml-100k.inter"
    cache.write_bytes(movielens.CACHE_FILE.read_bytes()[:-1])
    monkeypatch.setattr(movielens, "CACHE_FILE", cache)
    with pytest.raises(ValueError, match=f"Expected: [0-9a-f]{{64}}. Delete {cache}"):
        movielens.load()


def test_changed_wheel_is_refused(tmp_path):
    wheel = tmp_path / "recbole-1.2.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("recbole/dataset_example/ml-100k/ml-100k.inter", "something else")
    with pytest.raises(ValueError, match=r"ml-100k.inter is not the expected data"):
        movielens.read_member(wheel)


def test_cache_is_written_once_and_read_afterwards(tmp_path, monkeypatch):
    content = movielens.CACHE_FILE.read_bytes()
    fetched = []
    monkeypatch.setattr(movielens, "CACHE_FILE", tmp_path / "cache" / "ml-100k.inter")
    monkeypatch.setattr(movielens, "fetch", lambda: fetched.append(1) or content)
    movielens.load(10)
    movielens.load(10)
    assert len(fetched) == 1
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["ml-100k.inter"]


def test_failing_download_says_why(monkeypatch):
    monkeypatch.setattr(movielens, "_REQUIREMENT", "recbole==0.0.0.nonsense")
    with pytest.raises(RuntimeError, match=r"could not be fetched: `pip download recbole==0.0.0"):
        movielens.fetch()
