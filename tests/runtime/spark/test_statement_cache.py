"""Statements keep their meaning from epoch to epoch; what they read does not."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

import laminar
from laminar.errors import SegmentMissing
from laminar.model.trace import Segment
from laminar.runtime.spark import statement_cache as module
from laminar.runtime.spark.plan_cache import FolderRelation
from laminar.runtime.spark.statement_cache import LINKS, StatementCache
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "a INT, __weight BIGINT"


def segment(store: SegmentStore, *values: int) -> Segment:
    rows = store._spark.createDataFrame([(each, 1) for each in values], SCHEMA)
    written = store.write_arrow("r", 1, rows.toArrow())
    assert written is not None
    return written


def values(frame: DataFrame) -> list[int]:
    return sorted(row.a for row in frame.collect())


def analysed(statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by every statement that Spark is asked to analyse."""
    texts: list[str] = []
    session = statement_cache._session
    ask = session.sql

    def counted(text: str) -> DataFrame:
        if "CAST(NULL AS STRUCT" not in text:  # the store asks for a schema
            texts.append(text)
        return ask(text)

    monkeypatch.setattr(session, "sql", counted)
    return texts


def test_a_statement_is_analysed_once_and_reads_what_the_folder_shows(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = analysed(statement_cache, monkeypatch)
    first, second = segment(store, 1, 2), segment(store, 3)
    for shown, expected in [
        ([first], [1, 2]),
        ([second], [3]),
        ([first, second], [1, 2, 3]),
        ([first], [1, 2]),
    ]:
        view = statement_cache.view("r__delta", SCHEMA, shown)
        assert values(statement_cache.statement(f"SELECT a FROM {view} WHERE a > 0")) == expected
    assert len(texts) == 1


def test_a_face_without_rows_has_a_view_of_its_own(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    empty = statement_cache.view("r__before", SCHEMA, ())
    assert values(statement_cache.statement(f"SELECT a FROM {empty}")) == []
    full = statement_cache.view("r__before", SCHEMA, [segment(store, 7)])
    assert full != empty
    assert values(statement_cache.statement(f"SELECT a FROM {full}")) == [7]


def test_small_faces_are_read_by_one_task(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [segment(store, 1, 2), segment(store, 3)]
    one = statement_cache.statement(
        f"SELECT a FROM {statement_cache.view('r__delta', SCHEMA, shown)}"
    )
    assert one.rdd.getNumPartitions() == 1
    monkeypatch.setattr(module, "ONE_TASK", 2)
    many = statement_cache.view("r__delta", SCHEMA, shown)
    assert values(statement_cache.statement(f"SELECT a FROM {many}")) == [1, 2, 3]
    assert many != statement_cache.view("r__delta", SCHEMA, shown[:1])


@pytest.mark.parametrize("when", ["before it is shown", "after"])
def test_a_file_that_is_gone_is_an_error_and_never_left_out(
    store: SegmentStore, statement_cache: StatementCache, when: str
) -> None:
    first, second = segment(store, 1), segment(store, 2)
    if when == "after":
        statement_cache.view("r__before", SCHEMA, [first, second])
    (store.root / second.files[0]).unlink()
    with pytest.raises(SegmentMissing, match=Path(second.files[0]).name):
        statement_cache.view("r__before", SCHEMA, [first, second])
    view = statement_cache.view("r__before", SCHEMA, [first])
    assert values(statement_cache.statement(f"SELECT a FROM {view}")) == [1]


class FailsOnce:
    """Spark's relation, whose folder cannot be listed the first time."""

    def __init__(self, relation: FolderRelation) -> None:
        self._relation = relation
        self._failed = False

    def list_again(self) -> int:
        if not self._failed:
            self._failed = True
            raise OSError("too many open files")
        return self._relation.list_again()


def test_a_folder_that_could_not_be_pointed_is_pointed_again(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = segment(store, 1), segment(store, 2)
    view = statement_cache.view("r__before", SCHEMA, [first])
    (link_folder,) = statement_cache._link_folders.values()
    monkeypatch.setattr(link_folder, "relation", FailsOnce(link_folder.relation))
    with pytest.raises(OSError, match="too many"):
        statement_cache.view("r__before", SCHEMA, [first, second])
    statement_cache.view("r__before", SCHEMA, [first, second])
    assert values(statement_cache.statement(f"SELECT a FROM {view}")) == [1, 2]


def test_a_link_that_is_lost_is_made_again(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    shown = [segment(store, 1), segment(store, 2)]
    view = statement_cache.view("r__before", SCHEMA, shown)
    (link_folder,) = statement_cache._link_folders.values()
    next(link_folder.folder.iterdir()).unlink()
    statement_cache.view("r__before", SCHEMA, [*shown, segment(store, 3)])
    assert values(statement_cache.statement(f"SELECT a FROM {view}")) == [1, 2, 3]


def test_what_spark_does_not_list_is_an_error(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement_cache.view("r__before", SCHEMA, [segment(store, 1)])
    (link_folder,) = statement_cache._link_folders.values()
    monkeypatch.setattr(Path, "symlink_to", lambda *_: None)
    with pytest.raises(SegmentMissing, match=link_folder.folder.name):
        statement_cache.view("r__before", SCHEMA, [segment(store, 2)])


def test_a_folder_that_could_not_be_opened_is_opened_later(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("too many open files")

    shown = [segment(store, 1)]
    with monkeypatch.context() as patch:
        patch.setattr(store, "folder_frame", fail)
        with pytest.raises(OSError, match="too many"):
            statement_cache.view("r__before", SCHEMA, shown)
    view = statement_cache.view("r__before", SCHEMA, shown)
    assert values(statement_cache.statement(f"SELECT a FROM {view}")) == [1]


def test_a_caller_may_read_parquet_in_another_way(spark: SparkSession) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.sources.useV1SourceList", "csv")
    with laminar.connect(spark=own) as db:
        session = db.engine.env.workspaces.first.session
        assert "parquet" in str(session.conf.get("spark.sql.sources.useV1SourceList"))


def test_other_columns_are_another_folder(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    shown = [segment(store, 1)]
    one = statement_cache.view("r__delta", SCHEMA, shown)
    other = statement_cache.view("r__delta", "a BIGINT, __weight BIGINT", shown)
    assert one != other


def test_new_definitions_begin_with_nothing(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = analysed(statement_cache, monkeypatch)
    old, new = object(), object()
    for graph in (old, old, new):
        statement_cache.serve(graph, 1)
        view = statement_cache.view("r__delta", SCHEMA, [segment(store, 1)])
        assert values(statement_cache.statement(f"SELECT a FROM {view}")) == [1]
    assert len(texts) == 2
    assert len(list(statement_cache._folder.iterdir())) == 1


def test_the_statements_asked_for_last_are_remembered(
    statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement_cache._most = 2
    texts = analysed(statement_cache, monkeypatch)
    for number in (1, 2, 1, 3, 1):
        statement_cache.statement(f"SELECT {number} AS a")
    assert len(texts) == 3
    statement_cache.statement("SELECT 2 AS a")
    assert len(texts) == 4


@pytest.mark.usefixtures("statement_cache")
def test_where_there_are_no_links_epochs_go_on_without(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    with caplog.at_level(logging.INFO, "laminar.epochs"), laminar.connect(spark=spark) as db:
        db.execute("CREATE TABLE t (a INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        for number in range(3):
            db.insert("t", [(number,), (0,)])
            db.step()
        assert sorted(db.sql("SELECT * FROM v").rows()) == [(0, 4), (1, 1), (2, 1)]
    assert Counter("no links here" in each.message for each in caplog.records)[True] == 1


@pytest.mark.usefixtures("statement_cache")
def test_an_epoch_analyses_nothing_that_the_last_one_has(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute(
            """
            CREATE TABLE t (k INT, v INT);
            CREATE MATERIALIZED VIEW doubled AS SELECT k, v * 2 AS v FROM t WHERE v > 0;
            CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS s FROM doubled GROUP BY k;
            CREATE MATERIALIZED VIEW joined AS
                SELECT t.k, t.v, s.s FROM t JOIN sums s ON t.k = s.k;
            """
        )
        statement_cache = db.engine.env.workspaces.first.statement_cache
        assert statement_cache is not None
        texts = analysed(statement_cache, monkeypatch)
        grown = []
        for number in range(6):
            db.insert("t", [(each % 3, each) for each in range(number, number + 5)])
            db.step()
            grown.append(len(texts))
        # Two epochs show all: the first has nothing stored before it.
        assert grown[-1] == grown[2] > 0
        expected = "SELECT k, SUM(v * 2) AS s FROM t WHERE v > 0 GROUP BY k"
        assert sorted(db.sql("SELECT * FROM sums").rows()) == sorted(db.sql(expected).rows())


def test_a_frame_that_an_operator_keeps_stays_what_it_was(spark: SparkSession) -> None:
    kept: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        kept.append(rows)
        return rows

    builder = (
        laminar.DagBuilder().source("t", schema="a INT").operator("same", keep, schema="a INT")
    )
    with laminar.connect(spark=spark) as db:
        db.run(builder.connect("t", "same").build())
        for number in range(3):
            db.insert("t", [(number,)])
            db.step()
        # The first one was empty: the operator was filled from what there was.
        assert [values(each) for each in kept] == [[], [0], [1], [2]]


@pytest.mark.usefixtures("statement_cache")
def test_no_link_is_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (a INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        db.insert("t", [(1,)])
        db.step()
        assert list((tmp_path / LINKS).iterdir())
    assert not (tmp_path / LINKS).exists()
    left = [tmp_path / name / "of-a-dead-process" for name in (LINKS, "ports")]
    for each in left:
        each.mkdir(parents=True)
    with laminar.connect(tmp_path, spark=spark) as db:
        assert not [each for each in left if each.exists()]
