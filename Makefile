# `make run` and `make test` set everything up themselves, from the committed lock.
VENV ?= .venv
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell $(p) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $(p))))
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)
# Without byte code, every start of a service parses scikit-learn and MLflow anew: 3 s each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test lint coverage fuzz lock clean wheel

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

$(VENV)/.ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11, 3.12 or 3.13 on PATH; name one: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	@echo "setting up $(VENV) from requirements.lock"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# uv comes from the same lock, with its hashes
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	@VIRTUAL_ENV=$(abspath $(VENV)) UV_COMPILE_BYTECODE=1 $(BIN)/uv pip install --quiet --require-hashes -r requirements.lock
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

run: $(VENV)/.ready ## the whole loop on measured samples, then leave the services up (ONCE=1: exit after the summary)
	@colocast up --demo $(if $(ONCE),--once)

test: lint coverage ## lint, types, import contracts and all tests

lint: $(VENV)/.ready
	ruff format --check .
	ruff check .
	mypy
	lint-imports --no-logo

coverage: $(VENV)/.ready
	@mkdir -p build
	coverage erase
	pytest -q -m "not chaos and not fuzz" -n 2 --dist loadfile --cov --cov-report= --durations=10
	coverage report

fuzz: $(VENV)/.ready ## the service under schemathesis, against its own OpenAPI document
	pytest -q -m fuzz

test-properties: $(VENV)/.ready ## properties of scheduling with 2,000 examples each (EXAMPLES=N: others)
	COLOCAST_EXAMPLES=$(or $(EXAMPLES),2000) pytest -q -n 2 tests/scheduler_client/policy/test_safety.py tests/scheduler_client/policy/test_policy_battery.py tests/scheduler_client/policy/test_quota.py tests/scheduler_client/test_machine.py tests/scheduler_client/replay/test_policy_properties.py

test-chaos: $(VENV)/.ready ## kills real processes and checks that nothing is lost
	pytest -q -m chaos

bench-%: $(VENV)/.ready ## print a table and write build/bench/NAME.json
	@mkdir -p build/bench
	python -m benchmarks.$* --json build/bench/$*.json

lock: $(VENV)/.ready ## resolve again, for every supported Python, without registry addresses
	uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade -o requirements.lock

wheel: $(VENV)/.ready ## build the wheel into dist/
	uv build --wheel --no-build-isolation --quiet

clean: ## remove what the targets made, but not .colocast
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
