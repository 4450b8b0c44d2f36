# make quickstart   sets everything up, then teaches a real English model twelve languages
# make test         sets everything up, then lints, type-checks and tests
# make runtimes     adds other runtimes of models, which some tests need
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
SEEDS ?= 10
export PYTHON

.PHONY: help quickstart test runtimes check explore test-gpu setup clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
	@echo "make check        only lint, types and import contracts (after make test has set things up)"
	@echo "make explore      property tests with new random examples, SEEDS=10 times; not part of make test"
	@echo "make test-gpu     the tests that need a CUDA device, with the python3 that is there (PYTHON=...)"
	@echo "make clean        remove the environment and caches of tools, not your runs"

setup:
	@scripts/setup $(VENV) quickstart,dev

quickstart:
	@scripts/setup $(VENV) quickstart
	@echo "==> isogloss quickstart"
	@$(BIN)/isogloss quickstart

check:
	@echo "==> ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check -q .
	@echo "==> mypy --strict"; $(BIN)/mypy
	@echo "==> import contracts"; $(BIN)/lint-imports | tail -4

test: setup check
	@echo "==> pytest"; $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --max-worker-restart 0

runtimes: setup
	@scripts/runtimes $(BIN)/python

explore: setup
	@$(BIN)/python scripts/explore.py $(SEEDS)

test-gpu:
	@$(or $(PYTHON),python3) benchmarks/gpu_tests.py

clean:
	rm -rf $(VENV) .runtimes .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
