# `make demo`, `make demo-score` and `make test` set everything up by themselves.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FIXTURES := fixtures/pact_fixtures
RUNS ?= runs
# Of the tests. For two cores: a third of the time, a test waits for a process, a server or a browser.
WORKERS ?= 3
DEMO := --data $(FIXTURES)/data/holdout.jsonl --k 4 --train-seed 17

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo demo-score docs test test-all test-kernels plain pythons floors golden golden-accept pytest pytest-all mypy lint style fuzz mutants lock vulnerabilities bench replicate real clean

demo: $(VENV)/.plain  ## report, compare and show two versions of a made-up model, without torch
	$(BIN)/pact-eval demo --out $(RUNS)

demo-score: $(VENV)/.model  ## score two adapters of the tiny base model, print both reports, and put them on one page
	$(BIN)/pact-eval score $(FIXTURES)/adapters/nimble_recipe $(DEMO) --arm nimble_recipe --out $(RUNS)/demo-nimble_recipe
	$(BIN)/pact-eval score $(FIXTURES)/adapters/pact $(DEMO) --arm pact --out $(RUNS)/demo-pact
	PACT_EVAL_PALETTE=fixtures/pact_fixtures/paper_palette.toml $(BIN)/pact-eval report $(RUNS)/demo-pact $(RUNS)/demo-nimble_recipe --html $(RUNS)/demo.html --data $(FIXTURES)/data/holdout.jsonl --target-error 0.1
	$(BIN)/pact-eval thresholds $(RUNS)/demo-pact --target-error 0.1

# The tests start dozens of Python processes: none has to compile our modules again.
test test-all pytest pytest-all: export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The type checker runs beside the tests, which wait for servers, browsers and killed processes.
test: style  ## for every change, here and in CI: each test takes below a second of processor time
	@$(MAKE) --no-print-directory --jobs 2 mypy pytest

pytest: $(VENV)/.dev
	$(PYTEST) -m 'not slow' --border=fail --hypothesis-profile=fast

test-all: style  ## before a release, and every night: all tests, and the rates of false claims with their limits
	@$(MAKE) --no-print-directory --jobs 2 mypy pytest-all
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/claim_rates.py --check --write benchmarks/claim_rates.md

pytest-all: $(VENV)/.dev
	$(PYTEST) --border=show

mypy: $(VENV)/.dev
	$(BIN)/mypy

test-kernels: $(VENV)/.dev  ## the tests that compare logits, with either kernel of float32 products and 1, 2 and 4 threads
	set -e; for products in mkl onednn; do for threads in 1 2 4; do \
		echo "$$products, $$threads threads"; \
		PACT_TEST_PRODUCTS=$$products OMP_NUM_THREADS=$$threads \
			$(BIN)/python -m pytest -q tests/scoring tests/templates tests/training tests/losses; \
	done; done

plain: $(VENV)/.plain  ## install the wheel without extras and without a compiler, and start a visitor's first commands: seconds, MiB
	$(BIN)/python tests/plain_installation.py

pythons:  ## the same with other versions of Python: make pythons PYTHONS="python3.11 python3.14"
	set -e; for python in $(or $(PYTHONS),python3.11 python3.12 python3.13 python3.14); do $$python --version; $$python tests/plain_installation.py; done

floors: $(VENV)/.lock  ## the same with the smallest versions that pyproject.toml allows, and score with a model
	$(BIN)/python tests/plain_installation.py --floors

lint: style mypy

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

fuzz: $(VENV)/.dev  ## 10,000 hostile inputs to every reader, every mode of a hostile server, and 20 kills; `make test` runs a part
	PACT_FUZZ=10000 $(BIN)/python -m pytest -q -n $(WORKERS) tests/hostile

mutants: $(VENV)/.mutation  ## do the tests of a package notice its mutants? make mutants PACKAGE=metrics MUTANTS='--size 55 --seed 36'
	$(BIN)/python tests/mutants/__main__.py $(PACKAGE) $(MUTANTS)

golden: $(VENV)/.dev  ## compare what every command says and writes with tests/golden: make golden CASES="demo-page arms"
	PYTHONPATH=tests $(BIN)/python -m golden $(CASES)

golden-accept: $(VENV)/.dev  ## write the new record, and print what has changed
	PYTHONPATH=tests $(BIN)/python -m golden --accept $(CASES)

bench: $(VENV)/.bench  ## the tables of benchmarks/performance.md, against named peers; run it on two quiet cores
	$(BIN)/python benchmarks/startup.py --write benchmarks/performance.md
	$(BIN)/python benchmarks/scoring.py --write benchmarks/performance.md
	$(BIN)/python benchmarks/shapes.py --write benchmarks/performance.md $(if $(PACT_VLLM_PYTHON),--vllm $(PACT_VLLM_PYTHON))
	$(BIN)/python benchmarks/metrics_at_scale.py --write benchmarks/performance.md
	$(BIN)/python benchmarks/audit.py --records 30000 100000 300000 --write benchmarks/performance.md
	$(BIN)/python benchmarks/records.py

# torch is left out of the lock, and what torch needs is in it. Hashes of all platforms are in one file.
LOCKED := --extra model --extra server --extra ray --extra remote --extra inspect --extra quantize --group dev

lock: $(VENV)/.lock  ## write requirements.lock: every version of constraints.txt with its hashes
	printf 'torch ; sys_platform == "never"\n' > $(VENV)/without-torch.txt
	printf 'fsspec\njinja2\nnetworkx\nsetuptools\nsympy\ntyping-extensions\n' > $(VENV)/needed-by-torch.in
	$(BIN)/uv pip compile pyproject.toml $(VENV)/needed-by-torch.in --quiet --universal --python-version 3.11 $(LOCKED) \
		--constraint constraints.txt --override $(VENV)/without-torch.txt --no-emit-package torch \
		--generate-hashes --no-header --no-annotate --output-file $(VENV)/requirements.lock
	{ printf '# Written by `make lock`, for releases and CI. torch is not in it: its builds differ by platform\n'; \
	  printf '# (CPU, CUDA, ROCm), so no one hash fits. Install the version of constraints.txt first.\n'; \
	  sed '/^#/d; /^    #/d' $(VENV)/requirements.lock; } > requirements.lock

vulnerabilities: $(VENV)/.lock  ## compare the locked versions with the advisories of PyPI, over the network
	$(BIN)/python tests/vulnerabilities.py $(BIN)/uv

docs: $(VENV)/.dev  ## the docs site, in site/: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

replicate: $(VENV)/.model  ## the paper's experiment in miniature: two to six hours on two cores
	$(BIN)/python -m pact_fixtures replicate --out $(RUNS)/replicate

real: $(VENV)/.real  ## SmolLM2-135M-Instruct and two adapters of it, next to transformers and HFLM: hours on two cores
	$(BIN)/python -m pact_fixtures real-base --out $(RUNS)/real/base
	$(BIN)/python benchmarks/real.py --base $(RUNS)/real/base --out $(RUNS)/real

clean:
	rm -rf $(VENV) runs site

# Every install uses constraints.txt. Without it, pip may choose another torch, with gigabytes of CUDA.
$(VENV)/.plain: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pact-eval needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	touch $@

$(VENV)/.model: $(VENV)/.plain
	$(INSTALL) --editable '.[model]'
	touch $@

# The tools are dependency groups (PEP 735), which pip reads from version 25.1 on.
$(VENV)/.dev: $(VENV)/.model
	$(INSTALL) --upgrade 'pip>=25.1'
	$(INSTALL) --group dev
	touch $@

$(VENV)/.lock: $(VENV)/.model
	$(INSTALL) --upgrade 'pip>=25.1'
	$(INSTALL) --group lock
	touch $@

$(VENV)/.mutation: $(VENV)/.dev
	$(INSTALL) --group mutation
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) --group bench
	touch $@

$(VENV)/.real: $(VENV)/.dev
	$(INSTALL) --group real
	touch $@
