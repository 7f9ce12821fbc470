# make book    run what changed, render the book, say where it is
# make test    the tests, with coverage
# make check   check the rendered book; make check-sample: what the built sample must show
# make archive the rendered book as one file with a checksum, in build/
# make check-browser   the rendered book in Chromium, page by page (needs Chromium: apt install chromium)
# make check-cluster   the same build by SLURM, on a cluster of one node that it starts here, and without (Debian, as root)
# make pdf     the rendered book as one PDF in build/ (needs Chromium)
# make bench   the measurements of benchmarks/
# make lint    ruff
# make lock    resolve the dependencies again into requirements.lock (needs the network)
# make clean   remove everything that was built (.venv stays)
#
# Each sets up .venv first, once, with exactly the packages of requirements.lock. Options:
#
#   make book PROFILE=smoke PARAMS='-p seed=3' CORES=4
#   make book PYTHON=/path/to/python3.12
#   make book TORCH=existing    use the torch and torchvision of PYTHON, or what you installed into .venv, instead of the
#                               locked build, which takes several GB on Linux. For a build without CUDA:
#                               `python3 -m venv .venv`, then what pytorch.org says for pip and CPU with .venv/bin/pip,
#                               then `make book TORCH=existing`. The choice is remembered until .venv is removed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup book archive test check check-sample check-browser check-cluster pdf bench lint lock clean
.DELETE_ON_ERROR:

PROFILE ?= sample
CORES ?= 2
PARAMS ?=
BIN := .venv/bin
TORCH ?= $(if $(wildcard .venv/torch-existing),existing,locked)
# The stamp's name holds what was installed: another lock file, another stamp. It is written last of all.
STAMP := .venv/installed-$(TORCH)-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

FIT := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p -c '$(FIT)' 2>/dev/null && echo $$p && break; done)

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

setup: $(STAMP)

$(STAMP):
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then rm -rf .venv; \
	  if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c '$(FIT)'; then \
	    echo "make: no Python 3.11 to 3.13 was found; install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 2; fi; \
	  "$(PYTHON)" -m venv $(if $(filter existing,$(TORCH)),--system-site-packages) .venv || { \
	    rm -rf .venv; echo "make: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu, install python3-venv" >&2; exit 2; }; fi
ifeq ($(TORCH),existing)
	@$(BIN)/python -c 'import torch, torchvision' || { \
	  echo "make: TORCH=existing, and there is no torch with torchvision; see the head of the Makefile" >&2; exit 2; }
	touch .venv/torch-existing
	grep -vE '^(torch|torchvision|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==' requirements.lock > .venv/requirements.txt
else
	cp requirements.lock .venv/requirements.txt
endif
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r .venv/requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps -e .
	rm -f .venv/installed-*
	touch $@

# `exec`, so that the program's parent is make itself and it ends with make, even with a make that is killed.
book: $(STAMP)
	@exec $(BIN)/reefcore --with-parent run all --profile $(PROFILE) --cores $(CORES) $(PARAMS)
	@exec $(BIN)/reefcore --with-parent book build

# Two processes share the tests, each beside the data of its own coverage; what the second says comes last.
TESTED := --cov --cov-report= --cov-fail-under=0
SECOND := $(wildcard tests/test_[a-r]*.py)
test: $(STAMP)
	@rm -rf .coverage* && mkdir -p build
	@COVERAGE_FILE=.coverage-b $(BIN)/pytest $(TESTED) $(SECOND) >build/tests-second.log 2>&1 & second=$$!; failed=0; \
	  COVERAGE_FILE=.coverage-a $(BIN)/pytest $(TESTED) $(addprefix --ignore=,$(SECOND)) || failed=$$?; \
	  wait $$second || failed=$$?; cat build/tests-second.log; exit $$failed
	@$(BIN)/coverage combine --quiet .coverage-a .coverage-b && $(BIN)/coverage report

archive: $(STAMP)
	@$(BIN)/reefcore book archive

check: $(STAMP)
	$(BIN)/reefcore book check

check-sample: $(STAMP)
	$(BIN)/pytest checks/test_sample.py

check-browser: $(STAMP)
	$(BIN)/pytest checks/test_browser.py

check-cluster: $(STAMP)
	checks/cluster.sh $(BIN)/python

pdf: $(STAMP)
	@exec $(BIN)/reefcore --with-parent book pdf

bench: $(STAMP)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.readers

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lock:
	"$(PYTHON)" -m venv build/lock
	build/lock/bin/python -m pip install --disable-pip-version-check --quiet uv
	build/lock/bin/uv pip compile --universal --python-version 3.11 --extra train --extra fetch --extra cluster --extra language --extra realtime --extra book --extra dev --no-annotate \
	  pyproject.toml -o requirements.lock

clean:
	rm -rf build book/chapters book/status.md book/_build _build .snakemake .pytest_cache .ruff_cache .coverage*
