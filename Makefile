# Two commands: `make demo` releases a covariance of real data, `make test` runs the checks and tests.
# Both set up .venv from the hash-locked requirements first; only Python 3.11, pip, make and git are needed.
PY ?= $(shell command -v python3.11 || command -v python3)
V := .venv
B := $(V)/bin

export PREFECT_HOME ?= $(CURDIR)/.prefect
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The tests start hundreds of processes; where this is set, as in many containers, each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
# Networks with a certificate authority of their own install it on the machine.
export UV_SYSTEM_CERTS = true

# Tests that run beside others can starve for a processor. AGAIN=1 tries what failed (exit code 1, nothing else) once more,
# one test after the other: a fault fails again.
again = $(if $(AGAIN),|| { [ $$? = 1 ] && $(B)/python -m pytest -q --last-failed --last-failed-no-failures none; })

.PHONY: demo test check test-slow docs lock clean help

help: ## show the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /	/'

$(V)/.stamp: requirements.lock pyproject.toml
	@$(PY) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14) and "Python 3.11, 3.12 or 3.13 is needed: make PY=/path/to/python3.11")'
	$(PY) -m venv $(V)
	@# uv installs the same hashes several times faster, and is itself in the lock; plain pip does it where uv cannot run.
	awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements.lock > $(V)/uv.lock
	($(B)/python -m pip install -q --require-hashes --no-deps -r $(V)/uv.lock \
	  && $(B)/uv pip sync -q --compile-bytecode --require-hashes requirements.lock --python $(B)/python) \
	  || $(B)/python -m pip install -q --require-hashes --no-deps -r requirements.lock
	@# setuptools comes from the lock, so the project builds without fetching anything.
	$(B)/python -m pip install -q --no-deps --no-build-isolation -e .
	touch $@

demo: $(V)/.stamp ## set up, then release a private covariance of real data
	$(B)/blockveil demo

test: check ## set up, check style, types and layers, and run the tests
	@# They wait for servers and disks too: twice as many at once as there are cores; a file's tests share what it starts.
	$(B)/python -m pytest -q -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist loadfile -m "not slow" $(again)

test-slow: $(V)/.stamp ## the tests that take long
	@# They wait for servers and clocks more than they compute: twice as many at once as there are cores. The
	@# last ones are shared out again, for single tests take 20 minutes.
	$(B)/python -m pytest -q -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal -m slow $(again)

check: $(V)/.stamp ## style, types and layers
	$(B)/ruff check .
	$(B)/ruff format --check .
	$(B)/mypy
	$(B)/lint-imports --no-logo

docs: $(V)/.stamp ## build the site of the documentation into build/site
	$(B)/python docs/site/build.py build/site

lock: $(V)/.stamp ## write requirements.lock from pyproject.toml; UPGRADE=1 moves to newer versions
	$(B)/uv pip compile -q $(if $(UPGRADE),--upgrade) pyproject.toml --all-extras --python-version 3.11 --universal \
	  --generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock" -o requirements.lock

clean: ## remove what the commands made, the demo's releases and ledger included
	rm -rf $(V) build .prefect src/*.egg-info
