# The daily commands. Make, because contributors already have it.
# Extra arguments: make test ARGS="tests/policies -k pacing"

PYTHON ?= python3
BIN := .venv/bin

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|'

setup: $(BIN)/ruff  ## create .venv with everything that development needs

$(BIN)/ruff: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -e '.[test,lint,fast]'
	@touch $@

test: setup  ## run the tests, or those that ARGS names
	$(BIN)/pytest $(or $(ARGS),-n 4 --dist worksteal)

check: setup  ## check style, types, import contracts and the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -q tests/test_docs.py

demo: setup  ## crawl a small web on this machine
	$(BIN)/courtly demo

bench: setup  ## run the benchmarks, or those that ARGS names
	$(BIN)/pytest -m bench -s $(or $(ARGS),tests/benchmarks)

compare: setup  ## compare with other crawlers, which it builds; see docs/speed.md
	$(BIN)/python tests/benchmarks/peers/compare.py $(ARGS)

simulate: setup  ## simulate N whole crawls (500), from seed FROM on; see docs/simulation.md
	$(BIN)/python -m tests.simulation $(or $(N),500) --from $(or $(FROM),0) $(ARGS)

mutants: setup  ## inject each fault of tests/simulation/mutants.py and see whether it is found
	$(BIN)/python -m tests.simulation.injection $(ARGS)

.PHONY: help setup test check demo bench compare simulate mutants
