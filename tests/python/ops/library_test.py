# SPDX-License-Identifier: Apache-2.0
"""The op library loads, knows its TensorFlow, and says clearly what is wrong when it does not fit."""

import pytest
import tensorflow as tf

from adaptcp_tf._src.ops import library


def test_op_reports_the_tensorflow_it_was_compiled_against():
    assert library.ops.adaptcp_build_info().numpy().decode() == tf.__version__


def test_op_works_in_a_graph_and_has_a_static_shape():
    @tf.function
    def version():
        result = library.ops.adaptcp_build_info()
        assert result.shape == ()
        return result

    assert version().numpy().decode() == tf.__version__


def test_named_version_is_the_compiled_one():
    assert library.ops.adaptcp_build_info().numpy().decode() in library.built_for()


def test_matching_version_passes():
    library.check_version(built=["2.15.1"], installed="2.15.1")
    library.check_version(built=["2.15.1", "2.16.2"], installed="2.15.1")


@pytest.mark.parametrize("installed", ["2.16.2", "2.15.0", "2.15.1rc0"])
def test_other_version_is_one_sentence_with_the_remedy(installed):
    with pytest.raises(library.LibraryMismatchError) as caught:
        library.check_version(built=["2.15.1"], installed=installed)
    message = str(caught.value)
    assert isinstance(caught.value, ImportError)
    assert "Expected: tensorflow 2.15.1" in message
    assert f"Found: tensorflow {installed}" in message
    assert "pip install tensorflow==2.15.1" in message
    assert f"make setup TF={installed[:4]}" in message
    assert "\n" not in message


def test_every_version_that_would_fit_is_named():
    with pytest.raises(library.LibraryMismatchError, match="tensorflow 2.15.1 or 2.16.2. Found"):
        library.check_version(built=["2.15.1", "2.16.2"], installed="2.17.0")


def test_library_for_another_version_is_not_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "_DIRECTORY", tmp_path)
    (tmp_path / "_adaptcp_ops_tf1.2.3.so").write_bytes(b"")
    assert library.built_for() == ["1.2.3"]
    with pytest.raises(library.LibraryMismatchError, match="Expected: tensorflow 1.2.3"):
        library.load()


def test_missing_library_tells_to_run_make_setup(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "_DIRECTORY", tmp_path)
    with pytest.raises(library.LibraryMismatchError, match="make setup"):
        library.load()


def test_library_with_unknown_symbols_is_a_mismatch(monkeypatch, tmp_path):
    (tmp_path / f"_adaptcp_ops_tf{tf.__version__}.so").write_bytes(b"not a shared object")
    monkeypatch.setattr(library, "_DIRECTORY", tmp_path)
    with pytest.raises(library.LibraryMismatchError, match=f"tensorflow=={tf.__version__}"):
        library.load()
