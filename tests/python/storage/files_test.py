# SPDX-License-Identifier: Apache-2.0
"""Files: durable writes, honest answers, and errors that say what to do."""

import errno
import os
import pathlib
import signal
import socket
import uuid

import pytest

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files, local_files
from tests.python.storage.children import run
from tests.support import processes

ODD_NAMES = ["plain", "with-dash", "two words", "ünïcødé-試験", "a%20b", "x" * 200]
READ_WITHOUT_PLUGIN = """
import tensorflow as tf

from adaptcp_tf import errors
from adaptcp_tf._src.storage import files

try:
    files.read_bytes("s3://bucket/run/manifest")
except errors.UnsupportedFileSystemError as error:
    print(tf.__version__, error, sep="|")
"""


@pytest.fixture(params=["local", "file://", "ram://"])
def root(request, tmp_path):
    """A new directory on each kind of file system."""
    if request.param == "local":
        return str(tmp_path)
    if request.param == "file://":
        return f"file://{tmp_path}"
    directory = f"ram://{uuid.uuid4().hex}/run"
    files.make_dirs(directory)
    return directory


def raiser(number):
    def fail(*unused, **also_unused):
        raise OSError(number, os.strerror(number))

    return fail


# What is written is there.


@pytest.mark.parametrize("name", ODD_NAMES)
def test_bytes_round_trip_under_odd_names(root, name):
    directory = files.join(root, name)
    path = files.join(directory, name)
    files.make_dirs(directory)
    files.write_durably(path, b"\x00first")
    files.write_durably(path, b"second one\xff")
    assert files.read_bytes(path) == b"second one\xff"
    assert files.size(path) == 11
    assert files.exists(path)
    assert files.list_dir(directory) == [name]


def test_files_and_empty_directories_can_be_deleted_twice(root):
    directory = files.join(root, "a")
    path = files.join(directory, "f")
    files.make_dirs(directory)
    files.write_durably(path, b"")
    assert files.delete_dir_if_empty(directory) is False
    assert files.read_bytes(path) == b""
    assert files.delete_file(path) is True
    assert files.delete_file(path) is False
    assert files.delete_dir_if_empty(directory) is True
    assert files.delete_dir_if_empty(directory) is True
    assert not files.exists(path)


def test_make_dirs_creates_parents_and_accepts_what_exists(root):
    directory = files.join(root, "a", "b", "c")
    files.make_dirs(directory)
    files.make_dirs(directory)
    assert files.list_dir(files.join(root, "a", "b")) == ["c"]


def test_parts_of_a_file_are_read(root):
    path = files.join(root, "f")
    files.write_durably(path, b"0123456789")
    assert files.read_range(path, 3, 4) == b"3456"
    assert files.read_range(path, 8, 4) == b"89"
    assert files.read_range(path, 10, 4) == b""


def test_directory_is_moved_with_all_its_files(root):
    staging, target = files.join(root, "staging"), files.join(root, "target")
    files.make_dirs(staging)
    for name in ("a", "b", "c"):
        files.write_durably(files.join(staging, name), name.encode())
    files.move_dir(staging, target, last="a")
    assert files.list_dir(target) == ["a", "b", "c"]
    assert files.read_bytes(files.join(target, "b")) == b"b"
    assert not files.exists(staging)


def test_directory_is_not_moved_onto_files(root):
    staging, target = files.join(root, "staging"), files.join(root, "target")
    for directory, content in ((staging, b"ours"), (target, b"theirs")):
        files.make_dirs(directory)
        files.write_durably(files.join(directory, "f"), content)
    with pytest.raises(errors.StorageError, match="target"):
        files.move_dir(staging, target, last="f")
    assert files.read_bytes(files.join(target, "f")) == b"theirs"


def test_files_written_on_a_local_disk_get_where_they_belong(root):
    with files.written_elsewhere(root) as local:
        assert files.is_local(local)
        files.write_durably(files.join(local, "f"), b"x")
    assert files.read_bytes(files.join(root, "f")) == b"x"


def test_synchronising_works_on_every_file_system(root):
    path = files.join(root, "f")
    files.write_durably(path, b"x")
    files.sync_file(path)
    files.sync_dir(root)


@pytest.mark.parametrize("operation", [files.read_bytes, files.size, files.list_dir])
def test_missing_things_are_named(root, operation):
    path = files.join(root, "nothing")
    with pytest.raises(errors.StorageNotFoundError) as caught:
        operation(path)
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.path == files.normalize(path)
    assert repr(files.normalize(path)) in str(caught.value)
    assert socket.gethostname() in str(caught.value)


def test_size_of_a_directory_is_refused(tmp_path):
    with pytest.raises(errors.StorageError, match="Is a directory"):
        files.size(str(tmp_path))


def test_exists_is_false_below_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    assert not files.exists(str(tmp_path / "f" / "g"))


# Paths.


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b/", "/a/b"),
        ("/a//b/../c", "/a/c"),
        ("file:///a/b c/", "/a/b c"),
        ("gs://bucket/a/", "gs://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        (pathlib.Path("/a/b"), "/a/b"),
    ],
)
def test_normalize_gives_one_spelling(path, expected):
    assert files.normalize(path) == expected


def test_relative_paths_survive_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = files.normalize("run")
    monkeypatch.chdir("/")
    assert path == str(tmp_path / "run")


@pytest.mark.parametrize("path", ["", None, 3, b"bytes"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(errors.InvalidOptionError, match="Invalid value for a path"):
        files.normalize(path)


# A write is all or nothing.


def failing_steps():
    return [("os.fsync", errno.ENOSPC), ("os.replace", errno.EIO), ("open", errno.ENOSPC)]


@pytest.mark.parametrize(("step", "number"), failing_steps())
def test_failed_write_leaves_the_old_bytes_and_no_other_file(tmp_path, monkeypatch, step, number):
    path = str(tmp_path / "f")
    files.write_durably(path, b"old")
    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr(local_files, "open", raiser(number), raising=False)
        else:
            patch.setattr(local_files.os, step.split(".")[1], raiser(number))
        with pytest.raises(errors.StorageError) as caught:
            files.write_durably(path, b"new")
    assert caught.value.errno == number
    assert files.read_bytes(path) == b"old"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_writer_killed_in_the_middle_leaves_the_old_bytes(tmp_path, step):
    path = str(tmp_path / "f")
    files.write_durably(path, b"old")
    script = (
        "import os, signal, sys\n"
        "from adaptcp_tf._src.storage import files, local_files\n"
        "die = lambda *unused: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"local_files.os.{step} = die\n"
        "files.write_durably(sys.argv[1], b'new')\n"
    )
    assert run(script, path) == -signal.SIGKILL
    assert files.read_bytes(path) == b"old"


def test_write_synchronises_the_file_before_its_name_and_the_directory_after(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def traced_fsync(descriptor):
        kind = "directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file"
        done.append(f"fsync {kind}")
        fsync(descriptor)

    def traced_replace(source, target):
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "replace", traced_replace)
    files.write_durably(str(tmp_path / "f"), b"x")
    assert done == ["fsync file", "rename", "fsync directory"]


# Errors say what was tried, on what, what came back, and what to do.


def test_full_disk_says_how_to_get_room(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", raiser(errno.ENOSPC))
    with pytest.raises(errors.StorageFullError) as caught:
        files.write_durably(str(tmp_path / "f"), b"12345")
    message = str(caught.value)
    assert "Could not write 5 bytes to" in message
    assert str(tmp_path / "f") in message
    assert "No space left on device" in message
    assert "max_to_keep" in message


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_refused_access_is_a_permission_error(tmp_path, monkeypatch, number):
    monkeypatch.setattr(local_files, "open", raiser(number), raising=False)
    with pytest.raises(PermissionError, match="Give this user") as caught:
        files.read_bytes(str(tmp_path / "f"))
    assert isinstance(caught.value, errors.StoragePermissionError)


@pytest.mark.parametrize("below", ["", "/a", "/a/b"])
def test_file_where_a_directory_is_needed_is_named(tmp_path, below):
    (tmp_path / "taken").write_bytes(b"x")
    with pytest.raises(errors.StorageError, match="is a file where a directory is needed") as error:
        files.make_dirs(f"{tmp_path}/taken{below}")
    assert repr(str(tmp_path / "taken")) in str(error.value)
    assert (tmp_path / "taken").read_bytes() == b"x"


def test_lookup_that_fails_is_not_taken_for_absence(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "stat", raiser(errno.EIO))
    with pytest.raises(errors.StorageError, match="Could not look up"):
        files.exists(str(tmp_path))


def test_scheme_without_plugin_says_what_to_install():
    """In a process of its own: tensorflow-io, once imported, stays."""
    said = processes.run(READ_WITHOUT_PLUGIN)
    version, error = said.stdout.strip().split("|")
    assert "'s3'" in error
    assert "tensorflow-io==" in error
    assert f"TensorFlow {version}" in error


def test_temporary_object_is_removed_when_its_rename_fails(monkeypatch):
    import tensorflow as tf

    directory = f"ram://{uuid.uuid4().hex}/run"
    files.make_dirs(directory)

    def fail(*unused, **also_unused):
        raise tf.errors.UnavailableError(None, None, "the server went away")

    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    with pytest.raises(errors.StorageError, match="the server went away"):
        files.write_durably(files.join(directory, "f"), b"x")
    assert files.list_dir(directory) == []


def test_object_store_is_written_with_one_put(monkeypatch):
    import tensorflow as tf

    written = []

    class Put:
        def __init__(self, path, mode):
            written.append((path, mode))

        def __enter__(self):
            return self

        def __exit__(self, *unused):
            pass

        def write(self, data):
            written.append(data)

    monkeypatch.setattr(tf.io.gfile, "GFile", Put)
    files.write_durably("gs://bucket/run/f", b"x")
    assert written == [("gs://bucket/run/f", "wb"), b"x"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("NotFoundError", FileNotFoundError),
        ("PermissionDeniedError", PermissionError),
        ("UnauthenticatedError", PermissionError),
        ("ResourceExhaustedError", errors.StorageFullError),
        ("UnavailableError", errors.StorageError),
    ],
)
def test_answers_of_remote_stores_become_our_errors(monkeypatch, code, expected):
    import tensorflow as tf

    def fail(*unused, **also_unused):
        raise getattr(tf.errors, code)(None, None, "what the server said")

    monkeypatch.setattr(tf.io.gfile, "stat", fail)
    with pytest.raises(expected, match="what the server said") as caught:
        files.size("gs://bucket/run/f")
    assert isinstance(caught.value, errors.StorageError)


def test_errors_of_the_program_itself_pass_unchanged(monkeypatch):
    monkeypatch.setattr(local_files, "read_bytes", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        files.read_bytes("/f")
