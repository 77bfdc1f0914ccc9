# SPDX-License-Identifier: Apache-2.0
"""`tf.keras` is Keras 2 wherever the package can be imported, and standard output stays clean."""

from adaptcp_tf._src.environment import check_is_right_keras, check_keras
from tests.support import models, processes


def test_tests_run_with_keras_2():
    check_keras()


def test_import_prints_nothing():
    assert processes.run("import adaptcp_tf").stdout == ""


def test_models_and_optimizers_of_it_are_accepted():
    model = models.build()
    check_is_right_keras(model)
    check_is_right_keras(model.optimizer)
    check_is_right_keras(None)
