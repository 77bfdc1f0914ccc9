# SPDX-License-Identifier: Apache-2.0
"""Public errors: caught as AdaptCPError and as the fitting builtin, and they cross processes."""

import inspect
import pickle

import pytest

from adaptcp_tf import errors

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass)]

BUILTINS = {
    errors.InvalidOptionError: ValueError,
    errors.IncompatibleModelError: ValueError,
    errors.InexactCheckpointError: ValueError,
    errors.CheckpointFailedError: RuntimeError,
    errors.CheckpointNotFoundError: FileNotFoundError,
    errors.CheckpointExistsError: FileExistsError,
    errors.CorruptCheckpointError: ValueError,
    errors.DeltaOrderError: ValueError,
    errors.DirectoryLockedError: RuntimeError,
    errors.StorageError: OSError,
    errors.StorageNotFoundError: FileNotFoundError,
    errors.StoragePermissionError: PermissionError,
    errors.StorageFullError: OSError,
    errors.UnsupportedFileSystemError: ValueError,
}


def test_every_error_names_its_builtin():
    assert set(BUILTINS) == {
        c for c in CLASSES if c is not errors.AdaptCPError and "adaptcp" in c.__module__
    }


@pytest.mark.parametrize("error_class", BUILTINS)
def test_errors_are_caught_both_ways(error_class):
    for caught_as in (errors.AdaptCPError, BUILTINS[error_class]):
        with pytest.raises(caught_as, match="what happened"):
            raise error_class("what happened")


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptCheckpointError("m", path="p", field="f", expected=1, received=2),
        errors.DirectoryLockedError("m", directory="d", host="h", pid=3),
        errors.StorageFullError("m", path="p", errno=28),
        errors.CheckpointNotFoundError("m"),
    ],
)
def test_errors_keep_their_details_across_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "m"
    assert vars(copy) == vars(error)
    assert getattr(copy, "errno", None) == getattr(error, "errno", None)
