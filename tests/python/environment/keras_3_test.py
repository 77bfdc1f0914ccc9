# SPDX-License-Identifier: Apache-2.0
"""Where TensorFlow would take Keras 3, the package has it take Keras 2, or says what to do."""

import os
import subprocess
import sys

import pytest

from tests.support import processes

SHOW_KERAS = "\nprint(tf.keras.Model.__module__.split('.')[0])"


def run(script, **environment):
    """Runs a script in a process whose environment says nothing of Keras but what is given."""
    inherited = {k: v for k, v in processes.ENVIRONMENT.items() if k != "TF_USE_LEGACY_KERAS"}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def last_error(done):
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_this_process_has_chosen_for_those_it_starts():
    assert os.environ["TF_USE_LEGACY_KERAS"] == "1"


@pytest.mark.parametrize(
    "imports",
    [
        "import adaptcp_tf, tensorflow as tf",
        "import tensorflow as tf, adaptcp_tf",
        "import adaptcp_tf, tensorflow_recommenders_addons, tensorflow as tf",
        "import os, tensorflow as tf; os.environ['TF_USE_LEGACY_KERAS'] = '1'; import adaptcp_tf",
    ],
)
def test_keras_2_is_chosen_without_the_user(imports):
    done = run(imports + SHOW_KERAS)
    assert done.stdout == "tf_keras\n", done.stderr[-1000:]


@pytest.mark.parametrize(
    "before",
    [
        "import tensorflow as tf; tf.keras.layers.Dense(1)",
        "import tensorflow_recommenders_addons",
    ],
)
def test_keras_3_in_use_already_is_one_sentence_with_the_remedy(before):
    message = last_error(run(before + "\nimport adaptcp_tf"))
    assert "WrongKerasError: tf.keras is not the Keras that TFRA works with" in message
    assert "Found: keras 3." in message
    assert "TF_USE_LEGACY_KERAS=1" in message


def test_choice_of_the_user_is_not_overruled():
    message = last_error(run("import adaptcp_tf", TF_USE_LEGACY_KERAS="0"))
    assert "Found: keras 3." in message
    assert "TF_USE_LEGACY_KERAS=0. Run" in message


def test_missing_tf_keras_is_named():
    script = "import sys; sys.modules['tf_keras'] = None\nimport adaptcp_tf"
    assert "pip install tf-keras~=2.16.0" in last_error(run(script))
    message = last_error(run(script, TF_USE_LEGACY_KERAS="1"))
    assert "tf.keras cannot be imported" in message
    assert "pip install tf-keras~=2.16.0" in message


def test_model_of_keras_3_is_refused(tmp_path):
    script = f"""
import adaptcp_tf as acp, keras
model = keras.Sequential([keras.layers.Dense(1)])
acp.CheckpointManager({str(tmp_path)!r}, model=model)"""
    message = last_error(run(script))
    assert "Sequential is of another Keras than tf.keras" in message
    assert "Expected: one of tf_keras" in message
    assert not list(tmp_path.iterdir())
