# `make demo` and `make test` set everything up by themselves.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FIXTURES := fixtures/pact_fixtures
RUNS ?= runs
DEMO := --data $(FIXTURES)/data/holdout.jsonl --k 4 --seed 17

.PHONY: demo test lint bench replicate clean

demo: $(VENV)/.model  ## score two adapters of the tiny base model, print both reports, and put them on one page
	$(BIN)/pact-eval score $(FIXTURES)/adapters/nimble_recipe $(DEMO) --arm nimble_recipe --out $(RUNS)/demo-nimble_recipe
	$(BIN)/pact-eval score $(FIXTURES)/adapters/pact $(DEMO) --arm pact --out $(RUNS)/demo-pact
	$(BIN)/pact-eval report $(RUNS)/demo-nimble_recipe $(RUNS)/demo-pact --html $(RUNS)/demo.html --data $(FIXTURES)/data/holdout.jsonl --method pact

test: lint  ## everything that CI runs
	$(BIN)/python -m pytest -q

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/lint-imports

bench: $(VENV)/.bench  ## the tables of docs/performance.md, against named peers: 6 minutes on two quiet cores
	$(BIN)/python benchmarks/startup.py --write docs/performance.md
	$(BIN)/python benchmarks/scoring.py --write docs/performance.md
	$(BIN)/python benchmarks/shared_machine.py --write docs/performance.md
	$(BIN)/python benchmarks/metrics_at_scale.py --write docs/performance.md

replicate: $(VENV)/.model  ## the paper's experiment in miniature: 52 minutes on two cores
	$(BIN)/python -m pact_fixtures replicate --out $(RUNS)/replicate

clean:
	rm -rf $(VENV) runs

# Every install goes through constraints.txt: an unpinned torch may be another one, with gigabytes of CUDA.
$(VENV)/.model: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pact-eval needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[model]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[model,dev,bench]'
	touch $@

$(VENV)/.dev: $(VENV)/.model
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[model,dev]'
	touch $@
