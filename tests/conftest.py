from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from laminar.runtime.catalog.settings import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """Keep what tests write in memory: most of it is state that is synced again and again."""
    memory = Path("/dev/shm")
    is_ours = config.option.basetemp is None and not hasattr(config, "workerinput")
    if is_ours and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
        config.option.basetemp = Path(tempfile.mkdtemp(prefix="laminar-tests-", dir=memory))
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


THOROUGH = (
    "tests/crash/",
    "tests/oracle/",
    "tests/session/test_event_time.py",
    "tests/session/test_sinks.py::test_a_crash_between_any_two_writes_shows_in_no_sink",
)
"""Tests that do more with LAMINAR_TESTS=all: `make test` runs a fixed sample of theirs."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `make test` has no time for; see docs/CONTRIBUTING.md."""
    _sample(items)
    for each in items:
        if each.nodeid.startswith(THOROUGH):
            each.add_marker(pytest.mark.thorough)
    left = {"soak": "LAMINAR_SOAK" in os.environ, "long": os.environ.get("LAMINAR_TESTS") == "all"}
    markers = [name for name, is_wanted in left.items() if not is_wanted]
    left_out = [each for each in items if any(map(each.get_closest_marker, markers))]
    items[:] = [each for each in items if each not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _sample(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is `sampled(n)`, make all long but every nth."""
    seen: Counter[str] = Counter()
    for each in items:
        if mark := each.get_closest_marker("sampled"):
            test = each.nodeid.partition("[")[0]
            if seen[test] % mark.args[0]:
                each.add_marker(pytest.mark.long)
            seen[test] += 1


# On a busy machine a sink that keeps up may take longer than a user is kept waiting.
SETTINGS["sink_wait_ms"] = replace(SETTINGS["sink_wait_ms"], default="60000")

# The same examples on every machine and every run: a red test stays red until it is fixed.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where databases without a path are, also those of processes that tests start."""
    path = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(path))
        patch.setattr(tempfile, "tempdir", str(path))
        yield path


@pytest.fixture(scope="session")
def spark(scratch: Path) -> Iterator[SparkSession]:
    """The one session that all tests marked `spark` share: starting it takes seconds."""
    from pyspark.sql import SparkSession

    from laminar.runtime.spark.access import access_to

    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.buffer.pageSize": "2m",
        # Everything stays in this process: nothing has to be small, or checked on its way.
        "spark.broadcast.compress": "false",
        "spark.broadcast.checksum": "false",
        "spark.shuffle.compress": "false",
        "spark.shuffle.checksum.enabled": "false",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "10",
        # Thousands of small statements, each run a few times: compiling them would take longer.
        # That level reserves little room for compiled code, and stops compiling once it is full.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
        "spark.local.dir": str(scratch),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.cache.maxEntries": "10000",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers are any Python there is
    builder = SparkSession.builder.master("local[2]").appName("laminar-tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    access_to(session).lighten(session)
    yield session
    session.stop()
