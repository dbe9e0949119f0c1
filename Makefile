# Targets that need .venv create it. `make check` is what CI and every commit must pass.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test check lint demo bench docs draw dist versions torture coverage clean
setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# One process per core with one thread each: most tests are too small for several threads.
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

# The tests with the lowest and the newest versions, each in its own environment of several GB: this takes long.
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
	PYTHONPATH=. $(BIN)/python tools/draw_tables.py docs/reliability.md

# The site, in build/site; any warning is an error. The search box needs: python -m http.server -d build/site
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site: build/site/index.html"

# Draw the tables and figures of the pages from the records under results/ and paper/results/.
draw: setup
	PYTHONPATH=. $(BIN)/python tools/draw_tables.py README.md docs/*.md paper/README.md
	$(BIN)/python tools/draw_figures.py

# Coverage of the lines and branches of src/: fails below 95%, and writes results/torture/coverage.json.
coverage: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[torture]"
	$(BIN)/python -m coverage erase
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest --numprocesses auto
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m torture.covered

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
