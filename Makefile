# Every target sets up what it needs; nothing is installed outside .venv, but for the browser of test-browser.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Small problems are worked on without compiled kernels; this asks for them.
COMPILED := from sparsemean._kernels import compiling; from sparsemean._cli import main; compiling.end_plainness(); main()

# The editable install runs again only when pyproject.toml has changed.
$(VENV)/run.done: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	@echo "compiling kernels, half a minute: the first answer on large data then comes at once"
	@cd $(VENV) && bin/python -c '$(COMPILED)' demo >/dev/null && (echo up,down; seq 40 | sed 's/.*/&,-&/') | bin/python -c '$(COMPILED)' fit --quiet -
	@touch $@

$(VENV)/dev.done: $(VENV)/run.done
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

# Chromium comes from Debian's packages and axe-core from npm, for the tests alone; without them tests are skipped.
$(VENV)/browser.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet --group browser
	@command -v chromium >/dev/null || { apt-get -qq update && apt-get -qq install -y chromium; } \
		|| echo "chromium is not there and could not be installed: the browser tests will be skipped"
	@command -v npm >/dev/null || apt-get -qq install -y npm || true
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4 \
		|| echo "axe-core could not be fetched: the tests that need it will be skipped"
	@if command -v chromium >/dev/null; then touch $@; fi

# MathJax draws the formulas of the site; it comes from npm and is copied into the site, which then needs no network.
MATHJAX := $(VENV)/mathjax/node_modules/mathjax/es5/tex-svg.js
$(VENV)/docs.done: $(VENV)/run.done
	@command -v npm >/dev/null || { echo "npm is needed for the formulas of the documentation: install Node.js with npm"; exit 1; }
	$(BIN)/python -m pip install --quiet --group docs
	npm install --silent --no-audit --no-fund --prefix $(VENV)/mathjax mathjax@3
	@touch $@

# The packages that people use beside this one, in an environment of their own: what they ask for stays out of the other.
$(VENV)/integrations.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)/integrations
	$(VENV)/integrations/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)/integrations/bin/python -m pip install --quiet --editable ".[scanpy,tea-tasting,flower,plots,zarr,parquet]" --group integrations
	@touch $@

# byzfl comes with torch, which is large; it is needed for one table only.
$(VENV)/federated.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)/federated
	$(VENV)/federated/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)/federated/bin/python -m pip install --quiet --editable . "byzfl==0.0.11" "torch==2.13.0"
	@touch $@

.PHONY: demo test run-tests test-integrations mutate corpus against strength roads tails messy hostile test-browser test-readonly dist audit docs lint bench bench-federated reproduce validate clean

demo: $(VENV)/run.done            ## which features differ, on real data: verdict, table, suspects, sparsemean-demo.html
	$(BIN)/sparsemean demo

lint: $(VENV)/dev.done            ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Types are looked at beside the first tests: mypy takes half a minute of one core.
test: $(VENV)/dev.done            ## everything that must hold before a change lands
	@$(MAKE) --no-print-directory --jobs 2 lint run-tests

run-tests: $(VENV)/dev.done
	$(BIN)/python -m pytest --numprocesses 2

INTEGRATIONS := tests/integrations
test-integrations: $(VENV)/integrations.done  ## against the real scanpy, tea-tasting and Flower; what is missing fails
	$(VENV)/integrations/bin/python -m pytest $(INTEGRATIONS)

mutate: $(VENV)/dev.done          ## errors put into a copy of the package, one at a time: the test file named for each must fail
	$(BIN)/python tests/mutations.py

# make corpus BASE=main~3; make against BASE=main~3 BENCH="small ranks"
BASE := HEAD
BENCH := small
corpus: $(VENV)/dev.done          ## some 400 fits of every kind, decided by the code of BASE and by this one
	$(BIN)/python tests/against.py corpus $(BASE)

against: $(VENV)/dev.done         ## benchmarks of BASE and of this code in turn, least of five
	$(BIN)/python tests/against.py against $(BASE) $(BENCH)

# make strength BASE=be198ed OF=groups; BASE=exact is the test given all ties
OF := one
strength: $(VENV)/validate.done   ## how much BASE and this code find, of one sample, of groups (OF=groups), in real tables (OF=tables)
	$(BIN)/python tests/against.py $(OF) $(BASE) $(if $(filter-out 0,$(SEED)),$(SEED))

roads: $(VENV)/dev.done           ## files and functions from an array, or a file, to what a user sees
	$(BIN)/python tests/roads.py

# make tails MINUTES=60 SEED=1 looks longer, at other problems.
MINUTES := 2
SEED := 0
tails: $(VENV)/dev.done           ## a search for p-values of ranks that are smaller than exact ones; fails if it finds any
	$(BIN)/python tests/tail_search.py $(MINUTES) $(SEED)

messy: $(VENV)/dev.done           ## 250 tables of each fault that people's files have, against what was meant; fails if one is silently wrong
	$(BIN)/python tests/messy.py

# make hostile ENDINGS=".xlsx .csv.gz" tries those alone.
hostile: $(VENV)/dev.done         ## small files that stand for far more than they are: one line each, at most 2 s and 500 MB
	PYTHONPATH=tests $(BIN)/python -m hostile bombs $(ENDINGS)

test-browser: $(VENV)/browser.done  ## the report in Chromium, network off: works, fast and small enough, accessible
	$(BIN)/python -m pytest -rs tests/browser

# make dist PYTHONS=/usr/bin/python3.13 tries the wheel with one interpreter.
PYTHONS := python3.11 python3.12 python3.13
test-readonly: PYTHONS := $(BIN)/python
dist: ## sdist, wheel and conda recipe in dist/, checked; the wheel tried with each Python as test-readonly does with one
test-readonly: ## the wheel where nothing can be written, as user nobody without a home
dist test-readonly: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet --group dist
	$(BIN)/hadolint Dockerfile
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/dist
	PYTHON=$(BIN)/python .ci/readonly dist/*.whl $(PYTHONS)

# A source that lists no vulnerabilities would find none: a version that is known to be bad is asked for first.
audit: $(VENV)/dev.done           ## what is installed against published vulnerabilities, and against our own list
	$(BIN)/python -m pytest --quiet tests/test_floors.py
	$(BIN)/python -m pip install --quiet --group audit
	@echo "jinja2==3.1.4" > $(VENV)/known-bad.txt
	@if $(BIN)/pip-audit --no-deps --disable-pip --progress-spinner off --requirement $(VENV)/known-bad.txt 2>/dev/null | grep -qE 'GHSA|PYSEC|CVE'; \
		then $(BIN)/pip-audit --skip-editable --progress-spinner off; \
		else echo "no source of published vulnerabilities can be reached: only our own list of floors was checked"; fi

docs: $(VENV)/docs.done            ## the site in docs/_build/html; every example and code block is run
	$(BIN)/python docs/_extension/check.py blocks docs/*.md
	MATHJAX=$(abspath $(MATHJAX)) $(BIN)/python -m sphinx -W --keep-going --fresh-env --quiet docs docs/_build/html
	$(BIN)/python docs/_extension/check.py site docs/_build/html

bench: $(VENV)/run.done           ## every speed and memory number, as ratios taken in one run
	$(BIN)/sparsemean bench
	$(BIN)/python tests/plain_baselines.py

bench-federated: $(VENV)/federated.done  ## updates of clients: byzfl's aggregators and ours under byzfl's attacks; writes docs/federated.md
	OPENBLAS_NUM_THREADS=1 $(VENV)/federated/bin/python tests/against_byzfl.py

reproduce: $(VENV)/run.done       ## every figure of the paper beside the published points; goes on where it was stopped
	$(BIN)/sparsemean reproduce

# Data sets that nobody here made: scanpy's wheel and Debian's R packages carry them; without these, tests are skipped.
$(VENV)/validate.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet --group validate || echo "scanpy could not be installed: its data are skipped"
	@command -v Rscript >/dev/null && Rscript -e 'library(multtest); library(ALL)' >/dev/null 2>&1 \
		|| { apt-get -qq update && apt-get -qq install -y r-bioc-multtest r-bioc-all; } \
		|| echo "R and its data could not be installed: they are skipped"
	@touch $@

CLAIMS := tests/test_fitting.py tests/test_published.py tests/test_comparing.py tests/baselines/test_published_baselines.py \
	tests/validity tests/data/test_every_kind.py tests/data/test_hostile.py tests/data/test_bombs.py tests/counts/test_dask.py \
	tests/test_path.py tests/test_dependence.py tests/test_signed_ranks.py tests/test_examples.py \
	tests/test_tl.py tests/test_experiments.py tests/test_covariate.py tests/test_federated.py \
	tests/baselines/test_filters.py tests/baselines/test_sparse_sdp.py tests/baselines/test_sparse_directions.py tests/baselines/test_sparse_sos.py

# make validate PART=tests/validity/test_skew.py runs one file and leaves the other rows of the table as they are.
validate: $(VENV)/validate.done   ## the long version of every statistical claim; writes docs/validation.md
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --validate $(if $(PART),--keep-claims $(PART),$(CLAIMS))

clean:
	rm -rf $(VENV) build dist sparsemean-demo.html docs/_build docs/gallery .mypy_cache .ruff_cache .pytest_cache
