# Every target sets up what it lacks, and nothing twice. See README.md.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: setup demo test lint bench sanitize soak clean

# The TensorFlow to build for; there is one requirements-tf*.txt for each that is supported.
TF ?= 2.15

BIN := .venv/bin
PYTHON := $(BIN)/python
export TF_CPP_MIN_LOG_LEVEL ?= 2
# Trainings are compared bit by bit, and TFRA's threads insert a stray row now and then: docs/API.md.
export TFRA_NUM_WORKER_THREADS_FOR_LOOKUP_TABLE_INSERT ?= 1

ENVIRONMENT := .venv/environment-tf$(TF)
PACKAGE := .venv/package-tf$(TF)
LIBRARY := adaptcp_tf/_src/ops/_adaptcp_ops.so

REQUIREMENTS := requirements-tf$(TF).txt requirements-dev.txt
LIBRARY_SOURCES := .bazelrc WORKSPACE $(shell find custom_ops -not -path '*/testing*') \
	$(shell find custom_ops/testing/slow_store)
CC_FILES = $(shell find custom_ops tests/cc -name '*.cc' -o -name '*.h')

setup: $(PACKAGE) $(LIBRARY)

# Changing TF changes the stamp's name, so that the environment is made anew for it.
$(ENVIRONMENT): $(REQUIREMENTS) requirements-lock.txt
	.ci/create_venv .venv
	$(PYTHON) -m pip install --quiet $(addprefix -r ,$(REQUIREMENTS)) -c requirements-lock.txt
	touch $@

# Before the package, which builds it as well but would bury a compiler's message in pip's output.
$(LIBRARY): $(ENVIRONMENT) $(LIBRARY_SOURCES)
	.ci/system_packages build
	$(PYTHON) setup.py --quiet build_ext --inplace

$(PACKAGE): $(ENVIRONMENT) setup.py pyproject.toml | $(LIBRARY)
	$(PYTHON) -m pip install --quiet --no-build-isolation --no-deps --editable .
	touch $@

demo: setup
	$(PYTHON) examples/demo.py

test: setup
	.ci/system_packages test
	bazel test //tests/cc/...
	$(PYTHON) -m pytest

lint: $(ENVIRONMENT)
	.ci/system_packages lint
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	clang-format --dry-run -Werror $(CC_FILES)
	$(PYTHON) .ci/check_build_files.py
	.ci/thread_safety $(PYTHON)

bench: setup
	$(PYTHON) benchmarks/training.py --small
	$(PYTHON) benchmarks/tracker.py --small
	$(PYTHON) benchmarks/volume.py --preset small
	$(PYTHON) benchmarks/frequency.py --small
	$(PYTHON) benchmarks/restore.py --small
	$(PYTHON) benchmarks/slow_storage.py --small
	$(PYTHON) benchmarks/memory.py --small

# SHORT=1 is CI's form: the same tests with fewer repetitions.
sanitize: setup
	.ci/system_packages test sanitize
	bazel test --config=tsan --test_env=ADAPTCP_TEST_LENGTH=$(if $(SHORT),short,normal) //tests/cc/...
	bazel test --config=asan --test_env=ADAPTCP_TEST_LENGTH=$(if $(SHORT),short,normal) //tests/cc/...

soak: setup
	.ci/system_packages test
	bazel test --test_env=ADAPTCP_TEST_LENGTH=long --test_timeout=7200 //tests/cc/...
	ADAPTCP_TEST_LENGTH=long $(PYTHON) -m pytest

clean:
	if command -v bazel >/dev/null; then bazel clean --expunge; fi
	rm -rf .venv build dist out adaptcp_tf.egg-info .tf_configure.bazelrc
	rm -f $(LIBRARY) adaptcp_tf/_src/ops/build_info.py benchmarks/workloads/_slow_store.so
