# Every target sets up what it lacks, and nothing twice. See README.md.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: setup environment demo test test-pairs lint bench sanitize soak clean

# The TensorFlow to build for and to test with. There is one requirements-tf*.txt for each that is
# supported, and one environment: .venv for the first, .venv-tf* for the others.
FIRST_TF := 2.15
TF ?= $(FIRST_TF)
ALL_TF := $(patsubst requirements-tf%.txt,%,$(wildcard requirements-tf*.txt))
# What pytest is to run; nothing runs all tests.
TESTS ?=

REQUIREMENTS := requirements-tf$(TF).txt requirements-dev.txt
LOCK := requirements-lock-tf$(TF).txt
TF_VERSION := $(shell sed -n 's/^tensorflow==//p' $(firstword $(REQUIREMENTS)) 2>/dev/null)
ifeq ($(TF_VERSION),)
$(error Unknown TF=$(TF). Expected one of: $(ALL_TF))
endif

ifeq ($(TF),$(FIRST_TF))
VENV := .venv
else
VENV := .venv-tf$(TF)
# Later ones have Keras 3 where TFRA needs Keras 2.
export TF_USE_LEGACY_KERAS := 1
endif
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
export TF_CPP_MIN_LOG_LEVEL ?= 2
# Trainings are compared bit by bit, and TFRA's threads insert a stray row now and then: docs/API.md.
export TFRA_NUM_WORKER_THREADS_FOR_LOOKUP_TABLE_INSERT ?= 1

ENVIRONMENT := $(VENV)/environment-tf$(TF)
PACKAGE := $(VENV)/package-tf$(TF)
LIBRARY := adaptcp_tf/_src/ops/_adaptcp_ops_tf$(TF_VERSION).so

LIBRARY_SOURCES := .bazelrc WORKSPACE $(shell find custom_ops -not -path '*/testing*') \
	$(shell find custom_ops/testing/slow_store)
CC_FILES = $(shell find custom_ops tests/cc -name '*.cc' -o -name '*.h')

setup: $(PACKAGE) $(LIBRARY)

environment: $(ENVIRONMENT)

$(ENVIRONMENT): $(REQUIREMENTS) $(LOCK)
	.ci/create_venv $(VENV)
	$(PYTHON) -m pip install --quiet $(addprefix -r ,$(REQUIREMENTS)) -c $(LOCK)
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
	$(PYTHON) setup.py --quiet configure_bazel
	bazel test //tests/cc/...
	$(PYTHON) -m pytest $(TESTS)

# Checkpoints of each TensorFlow, restored under every other one.
test-pairs:
	for tf in $(ALL_TF); do $(MAKE) --no-print-directory setup TF=$$tf; done
	env -u TF_USE_LEGACY_KERAS .venv/bin/python -m pytest tests/pairs

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
	$(PYTHON) benchmarks/restore.py --remote --small

# SHORT=1 is CI's form: the same tests with fewer repetitions.
sanitize: setup
	.ci/system_packages test sanitize
	$(PYTHON) setup.py --quiet configure_bazel
	bazel test --config=tsan --test_env=ADAPTCP_TEST_LENGTH=$(if $(SHORT),short,normal) //tests/cc/...
	bazel test --config=asan --test_env=ADAPTCP_TEST_LENGTH=$(if $(SHORT),short,normal) //tests/cc/...

soak: setup
	.ci/system_packages test
	$(PYTHON) setup.py --quiet configure_bazel
	bazel test --test_env=ADAPTCP_TEST_LENGTH=long --test_timeout=7200 //tests/cc/...
	ADAPTCP_TEST_LENGTH=long $(PYTHON) -m pytest

clean:
	if command -v bazel >/dev/null; then bazel clean --expunge; fi
	rm -rf .venv .venv-tf* build dist out adaptcp_tf.egg-info .tf_configure.bazelrc
	rm -f adaptcp_tf/_src/ops/_adaptcp_ops_tf*.so benchmarks/workloads/_slow_store_tf*.so
