# SPDX-License-Identifier: Apache-2.0
"""What waits for a model to be built runs inside its first call, as it is written."""

import sys

import pytest
import tensorflow as tf

from adaptcp_tf._src.checkpoint.building import defer_until_built
from tests.support import models


@pytest.mark.parametrize("traced", [False, True])
def test_autograph_leaves_what_was_deferred_as_it_is(traced):
    model = models.Lazy()
    files = []
    for _ in range(2):
        defer_until_built(model, lambda: files.append(sys._getframe().f_code.co_filename))
    call = tf.function(model) if traced else model
    call({"ids": tf.zeros([2, models.FEATURES], tf.int64)})
    assert files == [__file__] * 2
