# SPDX-License-Identifier: Apache-2.0
"""Checks that Bazel files are tidy: the layout buildifier gives, without needing buildifier."""

import ast
import sys
from pathlib import Path

# Lists whose order carries no meaning, so that they are kept sorted.
SORTED_LISTS = {"deps", "environ", "hdrs", "includes", "srcs", "textual_hdrs", "visibility"}
# These come first, in this order; all others follow in alphabetical order; these last.
FIRST = ["name", "size", "testonly", "srcs", "hdrs"]
LAST = ["visibility", "deps", "alwayslink"]


def argument_rank(name: str) -> tuple:
    """Returns the place of an attribute in a target; equal for none."""
    if name in FIRST:
        return (0, FIRST.index(name), name)
    if name in LAST:
        return (2, LAST.index(name), name)
    return (1, 0, name)


def label_rank(label: str) -> tuple:
    """Returns the place of a label in a sorted list: own package, own workspace, others."""
    kind = next((i for i, start in enumerate((":", "//", "@")) if label.startswith(start)), -1)
    return (kind, label.replace(":", "!"))


def call_problems(call: ast.Call):
    """Yields what is untidy about one target."""
    names = [keyword.arg for keyword in call.keywords if keyword.arg]
    if names != sorted(names, key=argument_rank):
        yield call.lineno, f"attributes in the wrong order: {', '.join(names)}"
    for keyword in call.keywords:
        if keyword.arg not in SORTED_LISTS or not isinstance(keyword.value, ast.List):
            continue
        items = [item.value for item in keyword.value.elts if isinstance(item, ast.Constant)]
        if items != sorted(items, key=label_rank):
            yield keyword.value.lineno, f"{keyword.arg} is not sorted"
        if len(items) > 1 and keyword.value.lineno == keyword.value.end_lineno:
            yield keyword.value.lineno, f"{keyword.arg}: one item a line"


def text_problems(text: str):
    """Yields what is untidy about the characters of a file."""
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield text.count("\n"), "must end with exactly one newline"
    for number, line in enumerate(text.splitlines(), start=1):
        indent = len(line) - len(line.lstrip(" "))
        if "\t" in line:
            yield number, "tab"
        if line != line.rstrip():
            yield number, "trailing space"
        if indent % 4 and not line.lstrip().startswith(("#", '"')):
            yield number, "indentation is not a multiple of 4"
        if "'" in line and "#" not in line and '"' not in line:
            yield number, "single quotes"


def check(path: Path):
    """Yields (line, problem) for one Bazel file, which is syntactically also Python."""
    text = path.read_text()
    yield from text_problems(text)
    is_rules_file = path.suffix == ".bzl"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and not is_rules_file:
            yield from call_problems(node)


def bazel_files() -> list:
    """Returns every Bazel file of the project."""
    found = [Path("BUILD"), Path("WORKSPACE")]
    for folder in ("custom_ops", "tests"):
        for pattern in ("BUILD", "*.BUILD", "*.bzl"):
            found += Path(folder).rglob(pattern)
    return sorted(found)


def main() -> int:
    """Prints every problem; returns 1 when there is one."""
    problems = [f"{path}:{line}: {what}" for path in bazel_files() for line, what in check(path)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
