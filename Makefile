# `make demo`, `make docs` and `make test` do all their own set-up; `make check` is what CI and every commit must pass.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test check lint demo bench docs draw dist versions torture coverage clean
setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# A process for each core and a thread for each process: most tests are too small to share.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

demo: setup
	$(BIN)/adiw demo

bench: setup
	$(BIN)/python benchmarks/bench.py

# The lowest and the newest versions and the Python between, in environments of their own: long, and several GB each.
versions:
	$(PYTHON) versions/run.py lowest --python python3.11
	$(PYTHON) versions/run.py newest --python python3.13
	$(PYTHON) versions/run.py python312 --python python3.12

dist: setup
	$(BIN)/python -m hatchling build

torture: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[torture]"
	$(BIN)/python -m torture
	$(MAKE) coverage
	$(BIN)/python tools/draw_tables.py docs/reliability.md

# The site, strictly, into build/site. Open index.html; for the search box: python -m http.server -d build/site
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site: build/site/index.html"

# Draw the tables and figures of the pages from the records under results/.
draw: setup
	$(BIN)/python tools/draw_tables.py README.md docs/*.md
	$(BIN)/python tools/draw_figures.py

# Lines and branches of src/ that the suite runs: fails below 95%, and keeps the figures in results/torture.
coverage: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[torture]"
	$(BIN)/python -m coverage erase
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest --numprocesses auto
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m torture.covered

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
