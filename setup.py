# SPDX-License-Identifier: Apache-2.0
"""Builds the op library with Bazel and packs it, with the TensorFlow version it fits."""

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
TARGET = "//custom_ops:_adaptcp_ops.so"
PACKAGE_DIR = Path("adaptcp_tf", "_src", "ops")
# For tests and benchmarks of this folder; not part of the package.
SLOW_STORE = "//custom_ops/testing/slow_store:_slow_store.so"
WORKLOADS_DIR = Path("benchmarks", "workloads")

BUILD_INFO = '''\
# SPDX-License-Identifier: Apache-2.0
"""What the op library beside this file was built for. Written by setup.py; do not edit."""

TENSORFLOW_VERSION = "{version}"
'''


def tensorflow_version() -> str:
    """Returns the version of the TensorFlow to build for: the one installed beside setuptools."""
    try:
        return metadata.version("tensorflow")
    except metadata.PackageNotFoundError:
        raise SystemExit(
            f"Building adaptcp_tf needs TensorFlow in the environment of {sys.executable}, and "
            "there is none. Install it (pip install -r requirements-tf2.15.txt) and build with "
            "`pip wheel --no-build-isolation .`, or run `make setup`."
        ) from None


def requirements(version: str) -> list[str]:
    """Returns what the package needs at run time when built for TensorFlow `version`."""
    path = ROOT / f"requirements-tf{'.'.join(version.split('.')[:2])}.txt"
    if not path.exists():
        known = sorted(p.stem.removeprefix("requirements-") for p in ROOT.glob("requirements-tf*"))
        raise SystemExit(
            f"adaptcp_tf cannot be built for TensorFlow {version}. Expected one of: "
            f"{', '.join(known)}. Install a supported TensorFlow and build again."
        )
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    others = [line for line in lines if line and not line.startswith("tensorflow==")]
    # An op library fits exactly one version of TensorFlow: the one it is compiled against.
    return [f"tensorflow=={version}", *others]


def write_if_changed(path: Path, text: str) -> None:
    """Leaves the file and its time alone when it says `text` already, to spare rebuilds."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def replace_library(bin_dir: Path, target: str, directory: Path) -> None:
    """Copies the library of a Bazel target to a directory."""
    package, name = target.removeprefix("//").split(":")
    # Under a temporary name first: a running process may have the old library mapped.
    temporary = directory / f"{name}.new"
    shutil.copyfile(bin_dir / package / name, temporary)
    temporary.replace(directory / name)


class BazelBuildExt(build_ext):
    """Builds the op library with Bazel instead of a compiler chosen by setuptools."""

    def run(self) -> None:
        in_place = self.inplace or self.editable_mode
        version = tensorflow_version()
        environment = [
            f"--repo_env=PYTHON_BIN_PATH={sys.executable}",
            f"--repo_env=ADAPTCP_TF_VERSION={version}",
        ]
        if in_place:
            # From here on a plain `bazel build` or `bazel test` in this folder finds the same
            # TensorFlow. A wheel built by another interpreter leaves this choice alone.
            write_if_changed(
                ROOT / ".tf_configure.bazelrc", "".join(f"build {flag}\n" for flag in environment)
            )
        bin_dir = self._build(environment, [TARGET, SLOW_STORE] if in_place else [TARGET])
        output_dir = (ROOT if in_place else Path(self.build_lib).resolve()) / PACKAGE_DIR
        output_dir.mkdir(parents=True, exist_ok=True)
        replace_library(bin_dir, TARGET, output_dir)
        if in_place:
            replace_library(bin_dir, SLOW_STORE, ROOT / WORKLOADS_DIR)
        write_if_changed(output_dir / "build_info.py", BUILD_INFO.format(version=version))

    def _build(self, environment: list[str], targets: list[str]) -> Path:
        """Runs Bazel and returns the folder of what it built."""
        bazel = shutil.which("bazel")
        if bazel is None:
            raise SystemExit(
                "Building adaptcp_tf needs Bazel, and there is no `bazel` on PATH. Install it "
                "(apt-get install bazel-bootstrap), or run `make setup` as root, which does so."
            )
        if subprocess.run([bazel, "build", *environment, *targets], cwd=ROOT).returncode != 0:
            raise SystemExit(f"Bazel could not build {targets}; the reason stands above.")
        info = [bazel, "info", *environment, "bazel-bin"]
        bin_dir = subprocess.run(
            info, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        return Path(bin_dir)

    def get_outputs(self) -> list[str]:
        output_dir = Path(self.build_lib, PACKAGE_DIR)
        return [str(output_dir / name) for name in ("_adaptcp_ops.so", "build_info.py")]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python: the library does not use Python's C interface."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    cmdclass={"bdist_wheel": PlatformWheel, "build_ext": BazelBuildExt},
    # Named so that setuptools knows the package is not pure Python; Bazel knows the sources.
    ext_modules=[Extension("adaptcp_tf._src.ops._adaptcp_ops", sources=[])],
    install_requires=requirements(tensorflow_version()),
)
