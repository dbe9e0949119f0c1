# `make demo` and `make test` do all their own set-up; `make check` is what CI and every commit must pass.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test check lint demo bench coverage clean
setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

demo: setup
	$(BIN)/adiw demo

bench: setup
	$(BIN)/python benchmarks/bench.py

# Lines and branches of src/ that the suite runs: fails below 95%, and keeps the figures in results/torture.
coverage: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[torture]"
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m torture.covered

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
