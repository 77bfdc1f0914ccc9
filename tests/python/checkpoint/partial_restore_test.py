# SPDX-License-Identifier: Apache-2.0
"""Parts of a checkpoint: some variables, without slots, without dense variables."""

import logging

import pytest

import adaptcp_tf as acp
from adaptcp_tf import errors
from tests.support import models, tables


@pytest.fixture
def saved(tmp_path):
    """Rows of two variables, "user" and "item", that are saved as step 3."""
    user, item = (tables.make_variable(name) for name in ("user", "item"))
    manager = tables.manage(tmp_path, user, item)
    for step in (1, 2, 3):
        tables.fill(user, range(step * 10, 100), seed=step)
        tables.fill(item, range(step * 20, 200), seed=step)
        manager.save(step)
    manager.close()
    return {"user": tables.rows_of(user), "item": tables.rows_of(item)}


def test_other_groups_keep_their_rows(tmp_path, saved):
    user, item = (tables.make_variable(name) for name in ("user", "item"))
    manager = tables.manage(tmp_path, user, item)
    kept = tables.fill(item, range(7), seed=9)
    report = manager.restore(groups=["user"])
    assert report.rows == len(saved["user"])
    assert tables.rows_of(user) == saved["user"]
    assert tables.rows_of(item) == kept
    manager.close()


def test_model_may_lack_what_is_not_selected(tmp_path, saved):
    user = tables.make_variable("user")
    manager = tables.manage(tmp_path, user)
    with pytest.raises(errors.IncompatibleModelError, match="'item'"):
        manager.restore()
    manager.restore(groups=["user"])
    assert tables.rows_of(user) == saved["user"]
    manager.close()


def test_unknown_group_is_refused_with_those_that_there_are(tmp_path, saved):
    user, item = (tables.make_variable(name) for name in ("user", "item"))
    manager = tables.manage(tmp_path, user, item)
    before = tables.fill(user, range(7), seed=9)
    with pytest.raises(errors.InvalidOptionError, match="Received: shop. Expected: .*item, user"):
        manager.restore(groups=["user", "shop"])
    assert tables.rows_of(user) == before
    manager.close()


def test_next_checkpoint_is_a_base_of_everything(tmp_path, saved):
    user, item = (tables.make_variable(name) for name in ("user", "item"))
    manager = tables.manage(tmp_path, user, item)
    kept = tables.fill(item, range(7), seed=9)
    manager.restore(groups=["user"])
    tables.fill(user, range(3), seed=8)
    manager.save(4)
    manager.wait()
    assert manager.reports[0].kind == "base"
    expected = tables.rows_of(user)
    tables.fill(user, range(300), seed=7)
    tables.fill(item, range(300), seed=7)
    manager.restore(4)
    assert tables.rows_of(user) == expected
    assert tables.rows_of(item) == kept
    manager.close()


def trained(directory, batches, step):
    """A model that was trained and saved, and its parts."""
    model = models.build()
    models.train(model, models.dataset(batches))
    manager = acp.CheckpointManager(str(directory), model=model)
    manager.save(step)
    manager.close()
    return models.parts(model)


def restored_parts(directory, **selection):
    """Parts of a model that was trained otherwise, before and after a restore of parts."""
    model = models.build()
    models.train(model, models.dataset(2, seed=5))
    before = models.parts(model)
    manager = acp.CheckpointManager(str(directory), model=model)
    report = manager.restore(**selection)
    manager.close()
    return before, models.parts(model), report


def kinds(parts):
    """Names of parameter tables, of slot tables, and of the rest."""
    named = [name for name in parts if name.startswith("table ")]
    parameters = [name for name in named if name.endswith(".0")]
    slots = [name for name in named if name not in parameters]
    return parameters, slots, [name for name in parts if name not in named]


def test_dense_variables_may_stay(tmp_path):
    saved = trained(tmp_path, 5, step=5)
    before, after, _ = restored_parts(tmp_path, dense=False)
    parameters, slots, rest = kinds(saved)
    assert parameters and slots and rest
    assert {name: after[name] for name in parameters + slots} == {
        name: saved[name] for name in parameters + slots
    }
    assert {name: after[name] for name in rest} == {name: before[name] for name in rest}


def test_slots_may_be_left_out(tmp_path, caplog):
    saved = trained(tmp_path, 5, step=5)
    with caplog.at_level(logging.WARNING, "adaptcp_tf"):
        _, after, report = restored_parts(tmp_path, slots=False)
    parameters, slots, rest = kinds(saved)
    assert {name: after[name] for name in parameters + rest} == {
        name: saved[name] for name in parameters + rest
    }
    assert all(after[name] != saved[name] for name in slots)
    assert len(report.tables_without_rows) == 2
    assert "their rows start with the initial value" in caplog.text


def test_rows_alone_warm_start_another_optimizer(tmp_path):
    saved = trained(tmp_path, 5, step=5)
    other = models.build(optimizer="sgd_momentum")
    manager = acp.CheckpointManager(str(tmp_path), model=other)
    with pytest.raises(errors.IncompatibleModelError):
        models.train(other, [next(iter(models.dataset(1)))])
        manager.restore()
    report = manager.restore(slots=False, dense=False)
    parameters, _, _ = kinds(saved)
    after = models.parts(other)
    assert {name: after[name] for name in parameters} == {name: saved[name] for name in parameters}
    assert report.rows > 0
    manager.close()


def test_deferred_restores_happen_in_order(tmp_path):
    """All of one checkpoint, then parts of an older one."""
    model = models.build("subclassed")
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    rows = {}
    for step in (3, 6):
        models.train(model, models.dataset(3, seed=step))
        manager.save(step)
        manager.wait()
        rows[step] = tables.rows_of(model.emb.params)
    manager.close()
    fresh = models.build("subclassed")
    manager = acp.CheckpointManager(str(tmp_path), model=fresh)
    assert manager.restore(6) is None
    assert manager.restore(3, slots=False, dense=False) is None
    fresh(models.samples(1)[0])
    assert tables.rows_of(fresh.emb.params) == rows[3] != rows[6]
    manager.close()


def test_model_that_is_not_built_waits_for_it(tmp_path):
    saved = trained(tmp_path, 5, step=5)
    model = models.build("subclassed")
    manager = acp.CheckpointManager(str(tmp_path), model=model)
    assert manager.restore(slots=False, dense=False) is None
    model(models.samples(1)[0])
    parameters, _, _ = kinds(saved)
    rows = tables.rows_of(model.emb.params)
    assert rows and len(parameters) == 1
    manager.close()
