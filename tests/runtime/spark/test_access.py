"""The way to Spark is chosen by what the session can do, and the log says which and why."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyspark
import pytest

import laminar
from laminar.runtime.spark import access, fast
from laminar.runtime.spark.access import FORCED, SparkAccess, access_to, choose, way_to_start
from laminar.runtime.spark.fast import FastSpark
from laminar.runtime.spark.portable import PortableSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


needs_known = pytest.mark.skipif(
    not fast.is_known(pyspark.__version__), reason="nothing uses the internals of this Spark"
)


class ConnectSession:
    """A session that has nothing but the public API."""

    version = "4.3.0"


class NewerSession:
    version = "4.9.1"
    _jsparkSession = None  # noqa: N815


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing forces the choice, and what the log says of it is kept."""
    monkeypatch.delenv(FORCED, raising=False)
    caplog.set_level(logging.INFO, "laminar.spark")


@needs_known
@pytest.mark.spark
@pytest.mark.usefixtures("free")
def test_a_session_whose_internals_are_known_is_used_the_fast_way(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(choose(spark), FastSpark)
    assert caplog.messages == [
        f"Spark {spark.version} is used the fast way: its internals are as they are known"
    ]


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (
            ConnectSession(),
            "Spark 4.3.0 is used the portable way: it is reached over Spark Connect",
        ),
        (NewerSession(), "Spark 4.9.1 is used the portable way: its internals have not been tried"),
    ],
)
@pytest.mark.usefixtures("free")
def test_another_session_is_used_the_portable_way(
    caplog: pytest.LogCaptureFixture, session: SparkSession, said: str
) -> None:
    assert isinstance(choose(session), PortableSpark)
    assert caplog.messages == [said]


def removed(*_: object) -> object:
    raise TypeError("'JavaPackage' object is not callable")


@needs_known
@pytest.mark.spark
@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("laminar.runtime.spark.plan_cache.Planner.copy", "'JavaPackage' object is not callable"),
        ("laminar.runtime.spark.plan_cache.FolderRelation.list_again", "'JavaPackage' object"),
    ],
)
@pytest.mark.usefixtures("free")
def test_internals_of_another_shape_are_noticed_by_trying(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str,
    why: str,
) -> None:
    monkeypatch.setattr(broken, removed)
    assert isinstance(choose(spark), PortableSpark)
    assert f"the portable way: its internals are not as they are known: {why}" in caplog.text


@needs_known
@pytest.mark.spark
@pytest.mark.usefixtures("free")
def test_a_plan_that_gives_something_else_is_noticed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = spark.range(3)
    monkeypatch.setattr("laminar.runtime.spark.plan_cache.Planner.copy", lambda *_: other)
    assert isinstance(choose(spark), PortableSpark)
    assert "is not what it must be" in caplog.text


@needs_known
@pytest.mark.spark
def test_the_environment_may_say_which(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "laminar.spark")
    monkeypatch.setenv(FORCED, "portable")
    assert isinstance(choose(spark), PortableSpark)
    assert "the portable way: LAMINAR_SPARK says so" in caplog.text
    assert way_to_start() is PortableSpark
    monkeypatch.setenv(FORCED, "fast")
    assert isinstance(choose(spark), FastSpark)


def test_a_way_that_there_is_not_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "fast")
    with pytest.raises(laminar.SparkAccessUnavailable, match="Spark Connect"):
        choose(ConnectSession())  # type: ignore[arg-type]
    monkeypatch.setenv(FORCED, "quick")
    with pytest.raises(laminar.SparkAccessUnavailable, match="one of fast, portable"):
        choose(ConnectSession())  # type: ignore[arg-type]


@needs_known
def test_an_unknown_version_is_started_the_portable_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    assert way_to_start() is FastSpark
    monkeypatch.setattr(fast, "KNOWN", ())
    assert way_to_start() is PortableSpark


@pytest.mark.spark
def test_a_session_is_tried_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    tried: list[SparkAccess] = []

    def counted(session: SparkSession) -> SparkAccess:
        tried.append(choose(session))
        return tried[-1]

    monkeypatch.setattr(access, "choose", counted)
    own = spark.newSession()
    with laminar.connect(spark=own) as db:
        db.execute("CREATE TABLE t (a INT)")
        assert access_to(own) is tried[0]
    assert len(tried) == 1
