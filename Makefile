# The two commands of a developer are `make up` and `make test`. Both install what they need; `make help` lists the rest.

CLUSTER ?= demo
CACHE := $(or $(QUARTERJACK_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quarterjack)
UV := $(or $(shell command -v uv 2>/dev/null),$(CACHE)/uv/bin/uv)
PYTHON := .venv/bin/python
# Three of them have a cluster each, and mostly wait.
PROCESSES = $(shell echo $$(($$(nproc) + 3)))
# Only a Python that is here already: uv would download one from elsewhere than a package registry.
export UV_PYTHON_DOWNLOADS := never

.PHONY: help up down test coverage lint bench clean environment
.DEFAULT_GOAL := help

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

up: environment ## start a cluster, three replicas and the examples (CLUSTER=current: on your kubectl context)
	@$(PYTHON) -m tests.up up --cluster $(CLUSTER)

down: environment ## end what `make up` started, and remove it
	@$(PYTHON) -m tests.up down $(if $(filter command environment,$(firstword $(origin CLUSTER))),--cluster $(CLUSTER))

test: lint ## lint, types, layers, and all tests
	@echo "> tests"
	@$(PYTHON) -m pytest -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder --durations=10 --durations-min=20

coverage: environment ## report which branches the tests without a cluster reach; it takes three times as long as these tests
	@$(PYTHON) -m pytest -n auto --cov -m "not api and not node" tests/unit tests/memory

lint: environment ## format, lint, types, layers and Dockerfile
	@echo "> ruff format";      $(PYTHON) -m ruff format --check .
	@echo "> ruff check";       $(PYTHON) -m ruff check .
	@echo "> mypy";             $(PYTHON) -m mypy
	@echo "> import-linter";    .venv/bin/lint-imports
	@echo "> hadolint";         .venv/bin/hadolint operator/image/Dockerfile

bench: environment ## measure lateness beside the CronJob controller, and the raw limit
	@$(PYTHON) -m tests.bench

clean: ## remove what building and testing left in this directory
	rm -rf .venv build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment: $(UV)
	@echo "> Python environment (.venv)"
	@$(UV) sync --frozen

# Debian's Python takes no packages beside its own, so uv gets an environment for itself.
$(CACHE)/uv/bin/uv:
	@echo "> installing uv into $(CACHE)/uv"
	@python3 -m venv $(CACHE)/uv || { \
	  echo "> installing the Debian package python3-venv"; \
	  apt-get -qq update && apt-get -qq install --yes --no-install-recommends python3-venv >/dev/null && \
	  python3 -m venv $(CACHE)/uv; \
	} || { rm -rf $(CACHE)/uv; echo "missing prerequisite: uv, or python3 with venv, to install it with" >&2; exit 1; }
	@$(CACHE)/uv/bin/pip install --quiet 'uv>=0.13,<1'
