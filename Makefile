# Two commands do all set-up on a fresh machine: `make up` and `make test`. `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

env: .venv/.ready ## Build the Python environment in .venv

.venv/.ready: pyproject.toml scripts/env
	@scripts/env
	@touch $@

up: env ## Start the local engine and run the example RayCluster on real Ray
	@$(BIN)/kuberay local up --detach --file examples/raycluster.yaml

down: env ## Stop the local engine and remove all it left behind
	@$(BIN)/kuberay local down --purge

test: env ## Run everything that can run on this machine
	@scripts/test

quick: env ## Run what needs neither Ray nor Kubernetes, in under a minute
	@scripts/test quick

check: env ## Check format, lint, types and import contracts
	@scripts/check

bench: env ## Print the figures, each beside what it is compared to
	@scripts/bench

kubernetes: ## Build a real Kubernetes control plane for the tests (needs Go, about 6 minutes, once)
	@tools/kubernetes/build

.PHONY: help env up down test quick check bench kubernetes
