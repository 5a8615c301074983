# Set-up and shortcuts; every command below also works by itself in the activated environment (.venv).
SHELL := /bin/bash
PYTHON ?= python3
CAMPAIGN ?= cpu-reference
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup run elastic plan summary test test-gpu test-cluster lint bench mutation documents lock

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## create the environment from the lock

$(READY): requirements.lock pyproject.toml workflow/executor/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 15) else \
	  f"$(PYTHON) is Python {sys.version.split()[0]}; EP Campaign needs 3.11 to 3.14: make PYTHON=python3.11 ... [wrong_python]")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable workflow/executor
	@touch $@

run: $(READY) ## run the campaign CAMPAIGN (default cpu-reference), or what is left of it, and print its verdicts
	$(BIN)/snakemake --config campaign=$(CAMPAIGN)
	@$(BIN)/python workflow/scripts/show.py --results results/$(CAMPAIGN:.yaml=)

elastic: $(READY) ## run the elastic campaign cpu-elastic: what width buys and costs on the bundled engine (at most 8 minutes)
	@$(MAKE) --no-print-directory run CAMPAIGN=cpu-elastic

plan: $(READY) ## print the plan of CAMPAIGN: matrix, order, time, cost, limits
	@$(BIN)/python workflow/scripts/preview.py --campaign $(CAMPAIGN)

summary: $(READY) ## summarise CAMPAIGN again, measuring nothing
	$(BIN)/snakemake --config campaign=$(CAMPAIGN) summary=only --forcerun validate
	@$(BIN)/python workflow/scripts/show.py --results results/$(CAMPAIGN:.yaml=)

test: $(READY) ## all tests that need no cluster and no GPU
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not gpu and not cluster'

test-gpu: $(READY) ## tests that need two CUDA GPUs
	$(BIN)/python -m pytest -m gpu

test-cluster: $(READY) ## tests on a real Kubernetes cluster, named by EP_CAMPAIGN_TEST_KUBECONFIG (docs/custody.md)
	$(BIN)/python -m pytest -m cluster -rs tests/cluster

lint: $(READY) ## ruff, types, snakefmt, snakemake --lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/python workflow/scripts/lint.py

bench: $(READY) ## benchmarks: paired runs, ratios, medians
	@for script in $(filter-out benchmarks/mutation.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

mutation: $(READY) ## mutation tests of statistics, bytes and validation
	$(BIN)/python benchmarks/mutation.py

documents: $(READY) ## write the generated documentation anew
	$(BIN)/python workflow/scripts/documents.py

lock: ## resolve requirements.lock anew
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --no-annotate --no-header --upgrade --output-file requirements.lock pyproject.toml
	sed -i 's/^\(torch==[0-9.]*\)+cpu$$/\1/' requirements.lock
