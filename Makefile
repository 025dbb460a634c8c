# The one command surface: `make help` lists it.

PYTHON ?= python3
UV     ?= $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
PY     := .venv/bin/python
READY  := .venv/.synced
LANE_PY    := .venv-interop/bin/python
LANE_READY := .venv-interop/.synced
export UV_PYTHON_DOWNLOADS := never
# Spark starts a Python worker for every task slot: none of them should compile what it imports.
export UV_COMPILE_BYTECODE := 1
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test deep check format golden fuzz long sim scenarios interop sample bench clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## put everything into .venv, and say which Java will be used
	@$(PY) -m tidelake.spark.session.java

demo: $(READY) ## read a table that Apache Hudi wrote, then write one and let hudi-rs read it
	@$(PY) scripts/demo.py

test: $(READY) ## run the tests, some of every kind: minutes
	$(PY) -m pytest --numprocesses auto --dist worksteal

deep: $(READY) ## the other tests: more kinds of tables, crashes and kills at every point, fleets
	$(PY) -m pytest --numprocesses auto --dist worksteal -m "deep and not fuzz and not interop and not long"

check: $(READY) ## format, lint, types and import contracts
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: $(READY) ## rewrite the source the way `make check` wants it
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

golden: $(READY) ## ask every golden table every question and count the differences to Apache Hudi
	$(PY) -m tests.golden.run

fuzz: $(READY) ## thousands of damaged files: each ends in the right rows or in an error of ours
	$(PY) -m pytest tests/fuzz -m "fuzz or not fuzz"

long: $(READY) ## every kind of table, thousands of random writes, and a hundred thousand conditions
	$(PY) -m pytest tests/spark tests/writes tests/many tests/machine tests/conditions -m long -s

sim: $(READY) ## forty thousand seeded histories of all that a table can meet, with every fault
	TIDELAKE_SEEDS=0-40000 $(PY) -m pytest tests/sim -k every_history -m "not long" -n auto --timeout 7200
	$(PY) -m pytest tests/sim -k "not every_history" -m "long or not long" -s --timeout 7200

scenarios: $(READY) ## a line for each history that many writers can make, and whether it ends as it should
	@$(PY) -m tests.scenarios

interop: $(LANE_READY) $(READY) ## the pyspark 3.5 lane: tables shared with Apache Hudi, and the golden set
	$(LANE_PY) -m pytest tests/interop -m interop
	for release in 1.0.2 0.15.0; do \
	  TIDELAKE_HUDI_VERSION=$$release $(LANE_PY) -m pytest -m interop \
	  tests/interop/test_our_tables.py tests/interop/test_written_ahead.py \
	  tests/interop/test_service_relay.py || exit 1; \
	done
	$(LANE_PY) -m tests.golden.run

sample: $(READY) ## a small part of interop, for CI; passed over, aloud, where Apache Hudi cannot be had
	@if $(MAKE) $(LANE_READY) && $(LANE_PY) -m tests.interop.apache_hudi; then \
	  $(LANE_PY) -m pytest tests/interop -m "interop and sample"; \
	else \
	  echo "SKIPPED: Apache Hudi saw no table of ours, since it could not be installed (see above)"; \
	fi

bench: $(LANE_READY) $(READY) ## time every path beside Apache Hudi and others, printed as ratios
	$(LANE_PY) -m bench
	$(LANE_PY) -m bench write
	$(LANE_PY) -m bench services
	$(LANE_PY) -m bench upkeep
	$(LANE_PY) -m bench contention
	$(LANE_PY) -m bench growth
	$(PY) -m bench.critical_section

clean: ## remove what the other commands made
	rm -rf .venv .venv-* .uv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist

$(READY): pyproject.toml uv.lock | $(UV)
	$(UV) sync --locked --python "$$(command -v $(PYTHON))"
	@touch $@

# Spark 3.5 is pickier about its Python than we are, so this lane may bring one of its own.
$(LANE_READY): interop/pyproject.toml interop/uv.lock pyproject.toml | $(UV)
	UV_PROJECT_ENVIRONMENT="$(CURDIR)/.venv-interop" UV_PYTHON_DOWNLOADS=automatic \
	  $(UV) sync --project interop --locked
	@touch $@

# Reached only when the machine has no uv: it is a package like any other.
.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet uv
