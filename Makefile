# Two commands: `make demo` releases a covariance of real data, `make test` runs the checks and tests.
# Both set up .venv from the hash-locked requirements first; only Python 3.11 to 3.14, pip, make and git are needed.
PY ?= $(shell command -v python3.11 || command -v python3)
V := .venv
B := $(V)/bin
LOWEST := build/lowest
NEWEST := build/newest
RELEASING := build/releasing

export PREFECT_HOME ?= $(CURDIR)/.prefect
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The tests start hundreds of processes; where this is set, as in many containers, each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
# Networks with a certificate authority of their own install it on the machine.
export UV_SYSTEM_CERTS = true

# Tests that run beside others can starve for a processor. AGAIN=1 tries what failed (exit code 1, nothing else) once more,
# one test after the other: a fault fails again.
again = $(if $(AGAIN),|| { [ $$? = 1 ] && $(1)/python -m pytest -q $(2) --last-failed --last-failed-no-failures none; })

locked = $(B)/uv pip compile -q $(1) --python-version 3.11 --universal --generate-hashes \
  --no-annotate --no-emit-index-url --custom-compile-command "make lock" -o $(2)

python_is_supported = $(PY) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15) and "Python 3.11 to 3.14 is needed: make PY=/path/to/python3.11")'

# Environment $(1) with the hashes of lock $(2). uv installs them several times faster than pip, and is itself in the
# lock; plain pip does it where uv cannot run. setuptools is in the lock too, so the project builds without fetching anything.
define from_lock
	@$(python_is_supported)
	$(PY) -m venv $(1)
	awk '/^[^ ]/ { wanted = /^uv==/ } wanted' $(2) > $(1)/uv.lock
	($(1)/bin/python -m pip install -q --require-hashes --no-deps -r $(1)/uv.lock \
	  && $(1)/bin/uv pip sync -q --compile-bytecode --require-hashes $(2) --python $(1)/bin/python) \
	  || $(1)/bin/python -m pip install -q --require-hashes --no-deps -r $(2)
endef
project = $(1)/bin/python -m pip install -q --no-deps --no-build-isolation -e .

# The core of the tests in environment $(1). What the libraries of the lock deprecate is an error; what other versions
# of them deprecate in one another is not.
lenient := -W default::DeprecationWarning -W default::PendingDeprecationWarning
core = $(1)/bin/python -m pytest -q --processes $$(getconf _NPROCESSORS_ONLN) -m "not slow" $(lenient) \
  @tests/core.txt $(call again,$(1)/bin,$(lenient))

.PHONY: demo test check test-of test-costly test-slow costs test-lowest test-newest wheels docs bench release lock clean help

help: ## show the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /	/'

$(V)/.stamp: requirements.lock pyproject.toml src/blockveil/__init__.py
	$(call from_lock,$(V),requirements.lock)
	$(call project,$(V))
	touch $@

$(LOWEST)/.stamp: requirements-lowest.lock pyproject.toml src/blockveil/__init__.py
	$(call from_lock,$(LOWEST),requirements-lowest.lock)
	$(call project,$(LOWEST))
	touch $@

$(RELEASING)/.stamp: requirements-release.lock
	$(call from_lock,$(RELEASING),requirements-release.lock)
	touch $@

demo: $(V)/.stamp ## set up, then release a private covariance of real data
	$(B)/blockveil demo

# Tests wait for servers and disks too, so that more run at once than there are cores: with twice as many, a fifth of both
# cores was idle. All are collected once, and a file's tests share what it starts.
tests = $(B)/python -m pytest -q --processes $$(($$(getconf _NPROCESSORS_ONLN) * 5 / 2))

test: check ## set up, check style, types and layers, and run the tests that take seconds
	$(tests) -m "not slow and not costly" $(call again,$(B))

test-of: $(V)/.stamp ## the tests that are nearest to a module: make test-of FILE=engine/noise/keyring.py
	$(B)/python -m tests.house.reach $(FILE) > build/reach.txt
	$(B)/python -m pytest -q --processes $$(getconf _NPROCESSORS_ONLN) -m "not slow and not costly" @build/reach.txt

test-costly: $(V)/.stamp ## the tests that take more than a second of a processor, and samples of many cases, by tests/costs.txt
	$(tests) -m "costly and not slow" $(call again,$(B))

test-slow: $(V)/.stamp ## the tests that take minutes, and all cases of costly ones; SHARE=1/36 runs a part of them
	@# The longest, which tests/long.txt names, begin first.
	$(tests) -m slow $(if $(SHARE),--share $(SHARE)) $(call again,$(B))

costs: $(V)/.stamp ## measure what tests cost, and write tests/costs.txt
	$(tests) -m "not slow" --costs tests/costs.txt

test-lowest: $(LOWEST)/.stamp ## the core of the tests, on the least version of each requirement
	$(call core,$(LOWEST))

test-newest: ## the same on the newest versions that pyproject.toml allows today, without the lock
	@$(python_is_supported)
	$(PY) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install -q --upgrade uv
	$(NEWEST)/bin/uv pip install -q --upgrade --compile-bytecode --all-extras -r pyproject.toml --python $(NEWEST)/bin/python
	$(NEWEST)/bin/uv pip install -q --no-deps --no-build-isolation -e . --python $(NEWEST)/bin/python
	$(call core,$(NEWEST))

wheels: $(V)/.stamp ## look for a wheel of each locked package for each Python, by name
	for version in 3.11 3.12 3.13 3.14; do \
	  $(B)/uv pip install -q --dry-run --target build/wheels --python-version $$version --only-binary :all: --no-deps \
	    -r requirements.lock || exit 1; \
	done

check: $(V)/.stamp ## style, types and layers
	$(B)/ruff check .
	$(B)/ruff format --check .
	$(B)/mypy
	$(B)/lint-imports --no-logo

docs: $(V)/.stamp ## build the site of the documentation into build/site
	$(B)/python docs/site/build.py build/site

bench: $(V)/.stamp ## run the benchmarks with a peer, and append what they print to benchmarks/history.jsonl
	$(B)/python -m benchmarks.history $(ONLY)

release: $(V)/.stamp $(RELEASING)/.stamp ## build, check and tag a release in build/release; ADDRESS=https://HOST/OWNER/NAME
	$(B)/python .ci/release.py build/release $(ADDRESS)

lock: $(V)/.stamp ## write the locks from pyproject.toml; UPGRADE=1 moves to newer versions
	$(call locked,$(if $(UPGRADE),--upgrade) pyproject.toml --all-extras,requirements.lock)
	@# What is in a lock is kept, so the lowest is always found anew.
	$(call locked,--upgrade --resolution lowest-direct pyproject.toml --all-extras,requirements-lowest.lock)
	$(call locked,$(if $(UPGRADE),--upgrade) --group release,requirements-release.lock)

clean: ## remove what the commands made, the demo's releases and ledger included
	rm -rf $(V) build .prefect src/*.egg-info
