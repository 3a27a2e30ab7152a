PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all test-matrix test-upgrades test-spark41 test-spark42 soak soak-consistency check bench lock clean \
    preflight

demo: $(READY)
	$(BIN)/laminar demo

# Two processes, each with a Spark of its own: that keeps two cores busy.
TWO := $(BIN)/python -m pytest -n 2 --dist worksteal
test: $(READY)
	$(TWO)

# All of what `make test` has a sample of, but for steps to crash at (every fourth; all of them: `make soak`), what it
# has no time for, processes that are killed, and the oracle's sample over Spark's public API alone.
test-all: $(READY)
	LAMINAR_TESTS=all $(TWO) -o faulthandler_timeout=1800 -m "long or thorough"
	LAMINAR_CRASH=1 $(BIN)/python -m pytest tests/session/test_bridge.py -k killed
	LAMINAR_SPARK=portable $(TWO) tests/oracle

# A sample of the tests with older versions, in environments of their own, by Spark's public API: their internals are
# not known well enough. The lowest sqlglot goes with the lowest Spark.
test-matrix: test-spark41 test-spark42

test-spark41: .venv-spark41/.ready
test-spark42: .venv-spark42/.ready
.venv-spark41/.ready: PINS := 'pyspark[connect]==4.1.*' 'sqlglot==30.1.0'
.venv-spark42/.ready: PINS := 'pyspark[connect]==4.2.*'

SAMPLE := tests/sql tests/plan tests/delta tests/runtime tests/oracle/test_operators.py tests/oracle/test_random.py \
    tests/session/test_epochs.py tests/session/test_event_time.py tests/session/test_restore.py \
    tests/session/test_old_states.py tests/session/test_sinks.py \
    tests/session/test_spark_connect.py
test-spark41 test-spark42: test-%:
	LAMINAR_SPARK=portable .venv-$*/bin/python -m pytest -n 2 --dist worksteal $(SAMPLE)

# State of one Spark opened by another, up and down, inside random sequences.
test-upgrades: $(READY) .venv-spark41/.ready .venv-spark42/.ready
	for other in .venv-spark41 .venv-spark42; do \
	    LAMINAR_TESTS=all LAMINAR_OTHER_PYTHON=$$PWD/$$other/bin/python $(BIN)/python -m pytest \
	        tests/oracle/test_wild.py -k another_spark || exit 1; \
	    LAMINAR_TESTS=all LAMINAR_SPARK=portable LAMINAR_OTHER_PYTHON=$$PWD/$(BIN)/python \
	        $$other/bin/python -m pytest tests/oracle/test_wild.py -k another_spark || exit 1; \
	done

.venv-spark41/.ready .venv-spark42/.ready: requirements.lock pyproject.toml | preflight
	$(PYTHON) -m venv $(@D)
	sed -nE 's/^([A-Za-z0-9_.-]+==[^ ]+).*/\1/p' requirements.lock \
	    | grep -vE '^(pyspark|py4j|sqlglot)==' > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install -q --disable-pip-version-check -c $(@D)/constraints.txt \
	    -e '.[dev]' $(PINS)
	@touch $@

# Reads beside epochs of 1 to 10,000 rows, each checked, at least ten of every epoch; one that mixes
# two versions fails it.
soak-consistency: $(READY)
	$(BIN)/python examples/internal_consistency.py --reads 10000 --readers 3 --per-epoch 10

# Kills the process at random times and crashes at every named point, then mutated statements and requests, then all
# seeds of the oracle's random tests:
# make soak KILLS=200 LOSSES=200
# Losses are those of Spark alone, whose Java process is killed.
# Fifty kills to a JVM: what dead processes leave in it is never let go.
KILLS ?= 20
LOSSES ?= 20
SEED ?= 1
ROUND := 50
LONG := $(BIN)/python -m pytest -v -s -o faulthandler_timeout=0
soak: $(READY)
	LAMINAR_TESTS=all LAMINAR_SOAK=1 LAMINAR_KILLS=$(KILLS) LAMINAR_LOSSES=$(LOSSES) LAMINAR_SEED=$(SEED) $(LONG) tests/crash --deselect \
	    tests/crash/test_kills.py::test_a_killed_process_loses_nothing
	left=$(KILLS); seed=$(SEED); while [ $$left -gt 0 ]; do \
	    LAMINAR_KILLS=$$(( left < $(ROUND) ? left : $(ROUND) )) LAMINAR_SEED=$$seed \
	        $(LONG) tests/crash/test_kills.py -k loses_nothing || exit 1; \
	    left=$$(( left - $(ROUND) )); seed=$$(( seed + 1 )); done
	LAMINAR_MUTATIONS=100000 LAMINAR_REQUESTS=20000 LAMINAR_SEED=$(SEED) $(LONG) tests/sql/test_mutations.py \
	    tests/console/test_fuzz.py
	LAMINAR_TESTS=all LAMINAR_SOAK=1 LAMINAR_EPOCHS=30 LAMINAR_SEED=$(SEED) $(LONG) \
	    tests/oracle/test_operators.py
	LAMINAR_TESTS=all LAMINAR_SOAK=1 LAMINAR_EXAMPLES=60 $(LONG) tests/session/test_event_time.py \
	    tests/oracle/test_groups.py tests/oracle/test_queries.py tests/oracle/test_random.py \
	    tests/oracle/test_wild.py tests/oracle/test_duckdb.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

bench: $(READY)
	$(BIN)/python -m benchmarks

# The exact versions of a tested install; run after changing pyproject.toml.
lock: $(READY)
	$(BIN)/python -m pip install -q pip-tools
	$(BIN)/pip-compile -q --extra dev --strip-extras --generate-hashes --allow-unsafe \
	    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	    --build-deps-for editable \
	    -o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV)

preflight:
	@$(PYTHON) src/laminar/preflight.py

$(READY): requirements.lock pyproject.toml | preflight
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
