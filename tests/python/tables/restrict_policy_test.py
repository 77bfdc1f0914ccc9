# SPDX-License-Identifier: Apache-2.0
"""The state of restrict policies belongs to the rows: it is saved and restored with them."""

import pytest
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from tests.support import tables

POLICIES = [de.TimestampRestrictPolicy, de.FrequencyRestrictPolicy]


def make(policy, shards, name="emb"):
    return tables.make_variable(name, shards=shards, restrict_policy=policy)


def train(variable, numbers, seed=0):
    """What one step does: the policy sees the ids, the rows change."""
    variable.restrict_policy.apply_update(tables.make_keys(tf.int64, numbers))
    tables.fill(variable, numbers, seed)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_state_of_every_shard_round_trips(tmp_path, policy, shards):
    saved = make(policy, shards)
    train(saved, range(60))
    train(saved, range(20), seed=1)
    status = saved.restrict_policy.status
    fresh = make(policy, shards)
    assert tables.saved_and_restored(tmp_path, saved, fresh) == tables.rows_of(saved)
    for ours, theirs in zip(fresh.restrict_policy.status.tables, status.tables):
        assert tables.as_dict(*ours.export()) == tables.as_dict(*theirs.export())
        assert int(ours.size()) > 0


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_eviction_after_a_restore_evicts_the_same_rows(tmp_path, policy):
    saved = make(policy, 2)
    train(saved, range(60))
    # A second is the resolution of time stamps.
    status = saved.restrict_policy.status
    keys = tables.make_keys(tf.int64, range(30))
    status.upsert(keys, status.lookup(keys) + 100)
    fresh = make(policy, 2)
    tables.saved_and_restored(tmp_path, saved, fresh)
    saved.restrict(30)
    fresh.restrict(30)
    assert tables.rows_of(fresh) == tables.rows_of(saved)
    assert int(fresh.size()) == 30


def test_state_is_part_of_the_variables_group(tmp_path):
    variable = make(de.FrequencyRestrictPolicy, 1)
    manager = tables.manage(tmp_path, variable)
    names = [attached.name for attached in tables.group_of(variable).shards[0].tables]
    assert names[0] == "parameter"
    assert len(names) == 2 and "frequency" in names[1]
    manager.close()
