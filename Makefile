# `make demo`, `make docs` and `make test` do all their own set-up; `make check` is what CI and every commit must pass.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test check lint demo bench docs draw clean
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

# The site, strictly, into build/site. Open index.html; for the search box: python -m http.server -d build/site
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site: build/site/index.html"

# Tables and figures of the pages, drawn anew from the records under results/.
draw: setup
	$(BIN)/python -m adiw.reports.readme README.md docs/*.md
	$(BIN)/python docs/tools/figures.py

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
