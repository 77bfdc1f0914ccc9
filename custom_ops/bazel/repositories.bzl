"""Repositories made from what this machine has; none of them downloads anything."""

def _rules_repository_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.file(ctx.attr.package + "/BUILD", "")
    ctx.symlink(ctx.attr.defs, ctx.attr.package + "/defs.bzl")

rules_repository = repository_rule(
    implementation = _rules_repository_impl,
    attrs = {
        "defs": attr.label(mandatory = True, doc = "The file to serve as PACKAGE/defs.bzl."),
        "package": attr.string(mandatory = True),
    },
    doc = "A rules repository that only re-exports native rules.",
)

def _no_coverage_tools_repository_impl(ctx):
    ctx.file("BUILD", """
filegroup(
    name = "coverage_report_generator",
    visibility = ["//visibility:public"],
)

filegroup(
    name = "lcov_merger",
    visibility = ["//visibility:public"],
)
""")

no_coverage_tools_repository = repository_rule(
    implementation = _no_coverage_tools_repository_impl,
    doc = "Stands in for tools that every test names and only `bazel coverage` runs.",
)

# Prints the header directory, the library directory and the version, one a line, last of all.
_DESCRIBE_TENSORFLOW = """
import tensorflow as tf
print(tf.sysconfig.get_include(), tf.sysconfig.get_lib(), tf.__version__, sep="\\n")
"""

def _tensorflow_repository_impl(ctx):
    python = ctx.os.environ.get("PYTHON_BIN_PATH")
    if not python:
        fail("PYTHON_BIN_PATH is not set. Run `make setup` once, or name an interpreter that " +
             "has TensorFlow: bazel ... --repo_env=PYTHON_BIN_PATH=/path/to/python")
    result = ctx.execute(
        [python, "-c", _DESCRIBE_TENSORFLOW],
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if result.return_code != 0:
        fail("{} cannot import tensorflow:\n{}".format(python, result.stderr))
    include, lib, version = result.stdout.strip().split("\n")[-3:]
    ctx.symlink(include, "include")
    ctx.symlink(lib + "/libtensorflow_framework.so.2", "libtensorflow_framework.so.2")
    ctx.file("tensorflow_version.txt", version + "\n")
    ctx.symlink(Label("//custom_ops/bazel:tensorflow.BUILD"), "BUILD")

tensorflow_repository = repository_rule(
    implementation = _tensorflow_repository_impl,
    configure = True,
    doc = "Headers and framework library of the TensorFlow that PYTHON_BIN_PATH imports.",
    # ADAPTCP_TF_VERSION is never read: naming it here makes Bazel look again when the
    # interpreter stays the same and its TensorFlow changes.
    environ = [
        "ADAPTCP_TF_VERSION",
        "PYTHON_BIN_PATH",
    ],
)

def _googletest_repository_impl(ctx):
    sources = ctx.path("/usr/src/googletest")
    if not sources.exists:
        fail("GoogleTest's sources are not in /usr/src/googletest. " +
             "Install them: apt-get install libgtest-dev")
    ctx.symlink(sources.get_child("googletest"), "googletest")
    ctx.symlink(sources.get_child("googlemock"), "googlemock")
    ctx.symlink(Label("//custom_ops/bazel:googletest.BUILD"), "BUILD")

googletest_repository = repository_rule(
    implementation = _googletest_repository_impl,
    doc = "GoogleTest from the sources that Debian's libgtest-dev installs.",
    local = True,
)
