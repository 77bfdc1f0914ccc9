# SPDX-License-Identifier: Apache-2.0
"""A wheel of the package installs and works in an environment that never saw the source folder."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[3]

USE_THE_PACKAGE = """
import adaptcp_tf
from adaptcp_tf._src.ops.library import ops
print(adaptcp_tf.__file__)
print(ops.adaptcp_build_info().numpy().decode())
"""

PRETEND_ANOTHER_TENSORFLOW = """
import tensorflow as tf
tf.__version__ = "2.16.0"
import adaptcp_tf._src.ops.library
"""


def run(*command, **kwargs) -> str:
    result = subprocess.run(command, text=True, capture_output=True, **kwargs)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    run(*pip_wheel, "--wheel-dir", str(directory), ".", cwd=ROOT)
    (path,) = directory.glob("*.whl")
    return path


def test_wheel_is_for_this_platform_and_any_python(wheel):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")


def test_wheel_holds_one_library_and_no_sources_of_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    libraries = [name for name in names if name.endswith(".so")]
    assert libraries == [f"adaptcp_tf/_src/ops/_adaptcp_ops_tf{tf.__version__}.so"]
    top_level = {name.split("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {"adaptcp_tf"}


def test_wheel_requires_exactly_the_tensorflow_it_was_built_for(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    assert f"tensorflow=={tf.__version__}" in metadata.get_all("Requires-Dist")
    assert metadata["Requires-Python"] == "<3.12,>=3.9"


@pytest.fixture(scope="module")
def other_environment(wheel, tmp_path_factory) -> Path:
    """A virtual environment in which the wheel is installed, and nothing else of ours."""
    environment = tmp_path_factory.mktemp("other") / "venv"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    # TensorFlow comes from this environment, to spare its download. A path in a .pth file does
    # not bring along that folder's own .pth files, such as the one of the editable install.
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "tensorflow.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment


def test_wheel_works_in_another_virtual_environment(other_environment, tmp_path):
    python = str(other_environment / "bin" / "python")
    module_file, version = run(python, "-c", USE_THE_PACKAGE, cwd=tmp_path).split()
    assert Path(module_file).is_relative_to(other_environment)
    assert version == tf.__version__


def test_wheel_under_another_tensorflow_says_what_to_install(other_environment, tmp_path):
    python = str(other_environment / "bin" / "python")
    result = subprocess.run(
        [python, "-c", PRETEND_ANOTHER_TENSORFLOW], text=True, capture_output=True, cwd=tmp_path
    )
    assert result.returncode == 1
    last_line = result.stderr.strip().splitlines()[-1]
    assert "Found: tensorflow 2.16.0" in last_line
    assert f"pip install tensorflow=={tf.__version__}" in last_line
