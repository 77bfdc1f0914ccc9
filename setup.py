# SPDX-License-Identifier: Apache-2.0
"""Builds the op library with Bazel and packs it, with the TensorFlow version it fits."""

import shutil
import subprocess
import sys
import typing
from importlib import metadata
from pathlib import Path

from setuptools import Command, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
TARGET = "//custom_ops:_adaptcp_ops.so"
PACKAGE_DIR = Path("adaptcp_tf", "_src", "ops")
# For tests and benchmarks of this folder; not part of the package.
SLOW_STORE = "//custom_ops/testing/slow_store:_slow_store.so"
WORKLOADS_DIR = Path("benchmarks", "workloads")


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


def library_name(target: str, version: str) -> str:
    """Returns the file name of a target's library; `ops/library.py` looks for such names.

    Libraries for several versions stand beside each other in one source folder.
    """
    return f"{target.split(':')[1].removesuffix('.so')}_tf{version}.so"


def replace_library(bin_dir: Path, target: str, version: str, directory: Path) -> None:
    """Copies the library of a Bazel target to a directory."""
    package, name = target.removeprefix("//").split(":")
    path = directory / library_name(target, version)
    # Under a temporary name first: a running process may have the old library mapped.
    temporary = path.with_suffix(".new")
    shutil.copyfile(bin_dir / package / name, temporary)
    temporary.replace(path)


def bazel_flags(version: str) -> list[str]:
    """Returns what makes Bazel build for the TensorFlow of this interpreter."""
    return [
        f"--repo_env=PYTHON_BIN_PATH={sys.executable}",
        f"--repo_env=ADAPTCP_TF_VERSION={version}",
        # Outputs of their own for each version, so that changing over recompiles nothing.
        f"--platform_suffix=-tf{version}",
    ]


class ConfigureBazel(Command):
    """Has a plain `bazel build` or `bazel test` in this folder use this interpreter's TensorFlow."""

    description = "have Bazel use the TensorFlow of this interpreter"
    user_options: typing.ClassVar = []

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        path = ROOT / ".tf_configure.bazelrc"
        text = "".join(f"build {flag}\n" for flag in bazel_flags(tensorflow_version()))
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


class BazelBuildExt(build_ext):
    """Builds the op library with Bazel instead of a compiler chosen by setuptools."""

    def run(self) -> None:
        in_place = self.inplace or self.editable_mode
        version = tensorflow_version()
        if in_place:
            # A wheel built by another interpreter leaves this choice alone.
            self.run_command("configure_bazel")
        bin_dir = self._build(bazel_flags(version), [TARGET, SLOW_STORE] if in_place else [TARGET])
        output_dir = (ROOT if in_place else Path(self.build_lib).resolve()) / PACKAGE_DIR
        output_dir.mkdir(parents=True, exist_ok=True)
        if not in_place:
            # What an earlier build left there would get into the wheel.
            for path in output_dir.glob("*.so"):
                path.unlink()
        replace_library(bin_dir, TARGET, version, output_dir)
        if in_place:
            replace_library(bin_dir, SLOW_STORE, version, ROOT / WORKLOADS_DIR)

    def _build(self, flags: list[str], targets: list[str]) -> Path:
        """Runs Bazel and returns the folder of what it built."""
        bazel = shutil.which("bazel")
        if bazel is None:
            raise SystemExit(
                "Building adaptcp_tf needs Bazel, and there is no `bazel` on PATH. Install it "
                "(apt-get install bazel-bootstrap), or run `make setup` as root, which does so."
            )
        if subprocess.run([bazel, "build", *flags, *targets], cwd=ROOT).returncode != 0:
            raise SystemExit(f"Bazel could not build {targets}; the reason stands above.")
        info = [bazel, "info", *flags, "bazel-bin"]
        bin_dir = subprocess.run(
            info, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        return Path(bin_dir)

    def get_outputs(self) -> list[str]:
        name = library_name(TARGET, tensorflow_version())
        return [str(Path(self.build_lib, PACKAGE_DIR, name))]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python: the library does not use Python's C interface."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    cmdclass={
        "bdist_wheel": PlatformWheel,
        "build_ext": BazelBuildExt,
        "configure_bazel": ConfigureBazel,
    },
    # Named so that setuptools knows the package is not pure Python; Bazel knows the sources.
    ext_modules=[Extension("adaptcp_tf._src.ops._adaptcp_ops", sources=[])],
    install_requires=requirements(tensorflow_version()),
)
