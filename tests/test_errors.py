from __future__ import annotations

import copy
import pickle
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import laminar
from laminar import errors
from laminar.errors.sentences import first_sentence

PAGE_TOOL = Path(__file__).parents[1] / "tools" / "errors_page.py"

EXAMPLES: list[errors.LaminarError] = [
    errors.CycleDetected(["a", "b", "a"]),
    errors.SourceGap("s", 5, 30, {"at": 20}),
    errors.BadOffset("s", 3, "it is before 4, which it was asked to follow"),
    errors.ConnectorHung("s", "read", 60.0),
    errors.SourceAway("s", "the folder is not there"),
    errors.RowNotDelivered("s", [{"k": 1}]),
    errors.TakesNothingBack("s", "a weight is NULL"),
    errors.OptionIsFixed("s", "path", ["poll_interval"]),
    errors.UnsupportedAddress("s3://bucket/x"),
    errors.NodeNotFound("normalise", ["normalize", "trades"]),
    errors.DisconnectedNode("lonely"),
    errors.SchemaMismatch("a", "b", "price", "decimal(10,2)", "double"),
    errors.FanOutLimitExceeded("hub", 9, 8),
    errors.DuplicateNode("a"),
    errors.DuplicateEdge("a", "b"),
    errors.InvalidPort("a", 8, 8),
    errors.InvalidOperator(3),
    errors.BackpressureFull(4),
    errors.OperatorError("vwap", ValueError("bad price")),
    errors.ConnectorError("kafka", "no broker"),
    errors.CheckpointTimeout(7, 1.5),
    errors.TooManyCheckpoints(2, [3, 4]),
    errors.NoCheckpointFound("/state"),
    errors.RecoveryFailed("segment 3 is missing"),
    errors.InvalidSchema("no type"),
    errors.InvalidSetting("capacity", 0, "1 or more"),
    errors.DuplicateName("v"),
    errors.SourceNotFound("v", "tradez", ["trades"]),
    errors.MvCycleDetected(["v", "w", "v"]),
    errors.ViewNotFound("w", []),
    errors.HasDependents("v", ["w", "x"]),
    errors.NoCommonEpoch("new", 9, "slow", 5, reader="v"),
    errors.OperatorNotFound("v"),
    errors.SqlSyntaxError('unexpected "FORM", expected FROM', hint="did you mean FROM?"),
    errors.UnknownRelation("tradez", ["trades"]),
    errors.UnknownColumn("prise", ["price"]),
    errors.RelationExists("v"),
    errors.NotSupported("PRIMARY KEY", "leave it out"),
    errors.ColumnOutOfReach("b", "t"),
    errors.CorrelatedTooFar("refresh_policy is full"),
    errors.InvalidQuery("this query cannot run", "[DATATYPE_MISMATCH] no"),
    errors.NotIncremental("v", "RECURSIVE_CTE", "WITH RECURSIVE"),
    errors.NonDeterministic("rand", "v"),
    errors.BadViewOption("refresh_polcy", known=["refresh_policy"]),
    errors.AmbiguousColumns(iter(["id", "ts"])),
    errors.UnknownFunction("summ", ["sum"]),
    errors.MissingArgument(":low", ["lo"]),
    errors.UnusedArgument("high", [":low", ":name"]),
    errors.BadArgument("low", "it is a set"),
    errors.ParameterInDefinition(":low"),
    errors.FunctionExists("abs", is_built_in=True),
    errors.InvalidFunction("f", "it calls itself", "write the recursion as a view"),
    errors.FunctionInUse("f", ["v", "g"]),
    errors.FunctionNotRegistered("f"),
    errors.UnknownSchema("s", ["default"]),
    errors.UnknownCatalog("hive", "laminar"),
    errors.SchemaExists("s"),
    errors.SchemaNotEmpty("s", ["t"]),
    errors.InvalidCall("f", "it takes (x INT)"),
    errors.UnknownSetting("laminar.retaind", ["laminar.retained_epochs"]),
    errors.BadSetting("laminar.retained_epochs", "many", "a whole number, 1 or more"),
    errors.DependentRefused("v", "w", "unknown column"),
    errors.DuplicateKey("t", ["id"], [(1,)]),
    errors.MergeConflict("t", {"id": 1}),
    errors.CheckViolated("t", "c", "x > 0").about_row(2, {"x": -1}),
    errors.TextTooLong("t", "v", 3),
    errors.GeneratedOtherwise("t", "g", "x * 2"),
    errors.NoWatermark("t"),
    errors.NoWindow("v", "EMIT FINAL", "it groups by no window"),
    errors.RowDoesNotMatch("t", 3, "n", "x", "BIGINT"),
    errors.RowNotFound("t", [{"n": 1}]),
    errors.ManifestCorrupt("manifests/7.json", "checksum differs"),
    errors.UnsupportedFormat(9, 1),
    errors.EpochNotFound(3, 5, 9),
    errors.SegmentMissing("data/t/1.parquet"),
    errors.SegmentCorrupt("data/t/1.parquet", "checksum differs"),
    errors.StoreUnwritable("/state", "no space left"),
    errors.StoreUnreadable("/state/manifests", "Input/output error"),
    errors.EpochExists(4),
    errors.DatabaseNotFound("/state"),
    errors.CursorCorrupt("/state/cursors/k.json", "its checksum does not match"),
    errors.SubscriptionEnded("v", "it was dropped"),
    errors.ReadOnlyDatabase("INSERT", "/state"),
    errors.ReadTooLate(7),
    errors.CheckpointCorrupt(3, "/state/checkpoints/3", "it ends early"),
    errors.DatabaseLocked("/state", "process 12 on here"),
    errors.DatabaseClosed("/state"),
    errors.WriterBusy("epoch 12", 14.2, "laminar-loop"),
    errors.TableRedefined("t"),
    errors.WriteWithinEpoch("CREATE TABLE u", "v"),
    errors.UnknownConnector("kafak", ["kafka"]),
    errors.UnknownOption("files", "paht", ["path"]),
    errors.MissingOption("files", "path", "a folder"),
    errors.BadOption("datagen", "rows_total", "-1", "a number from 0"),
    errors.SinkBehind("k", "ALTER v", 3, "retrying", "no room"),
    errors.SinkHolds("k", 1000, "retrying", "no room"),
    errors.ForeignCode("reflect"),
    errors.ReferenceNotFound("kafka", "password", "${env:PASS}", "no such variable"),
    errors.BadReference("kafka", "password", "${evn:PASS}"),
    errors.SourceReadFailed("s", "the file is gone", file="a.json", line=2),
    errors.RowDoesNotFit("s", "n is not BIGINT", file="a.json", line=2, text="{}"),
    errors.Backpressure("trades", 5, "4 rows"),
    errors.BridgeClosed("trades"),
    errors.SpillCorrupt("spill/1.spill", "its checksum differs"),
    errors.NotRetained("trades", 'column "note" is not kept'),
    errors.LoopFailed("division by zero", 5),
    errors.SparkUnavailable("spark://nowhere", "could not parse it"),
    errors.FixedSparkSetting("ansi_enabled"),
    errors.UnusableSparkSetting("spark.sql.session.timeZone", "Mars", "no such zone"),
    errors.UnsupportedSparkSetting("spark.sql.legacy.x", "true", "false"),
    errors.ColumnOutOfReach("x", "t"),
    errors.CorrelatedTooFar("LATERAL over two levels"),
    errors.SparkAccessUnavailable("fast", "it is reached over Spark Connect"),
    errors.SparkLost("its Java process was killed by signal 9", is_restarted=True),
    errors.PortUnavailable("127.0.0.1", 80, "permission denied"),
    errors.BadRequest("there is no /nothing"),
    errors.JavaUnavailable("Laminar needs Java 17+ and found no java on the PATH."),
]

BASES = {
    errors.RuleBroken,
    errors.LaminarError,
    errors.DagError,
    errors.MvError,
    errors.SqlError,
    errors.EventTimeError,
    errors.DataError,
    errors.StoreError,
    errors.SourceError,
    errors.BridgeError,
}
"""What is caught rather than raised."""


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return runpy.run_path(str(PAGE_TOOL))


def test_the_page_of_errors_is_up_to_date(page: dict[str, Any]) -> None:
    assert page["PAGE"].read_text(encoding="utf-8") == page["render"]()


def test_codes_are_unique_and_well_formed(page: dict[str, Any]) -> None:
    codes = [cls.code for cls in page["error_classes"]()]
    assert [code for code, times in Counter(codes).items() if times > 1] == []
    assert all(re.fullmatch(r"LMR-\d{4}", code) for code in codes)
    assert all(code[4] in page["RANGES"] for code in codes)


def test_every_error_says_what_happened_and_what_to_do(page: dict[str, Any]) -> None:
    for cls in page["error_classes"]():
        first, blank, *rest = (cls.__doc__ or "").strip().splitlines()
        assert first.endswith("."), cls
        assert blank == "", cls
        assert rest, cls


def test_every_error_is_exported(page: dict[str, Any]) -> None:
    for cls in page["error_classes"]():
        assert getattr(laminar, cls.__name__) is cls


def test_every_class_has_an_example_here(page: dict[str, Any]) -> None:
    assert {type(example) for example in EXAMPLES} == set(page["error_classes"]()) - BASES


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_messages_follow_the_style(error: errors.LaminarError) -> None:
    assert error.message[0].islower()
    assert error.message[-1] not in ".!"
    assert str(error).startswith(f"{error.code}: {error.message}")


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_survive_copying(error: errors.LaminarError, again: Any) -> None:
    twin = again(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_a_cycle_is_named_by_its_path() -> None:
    error = errors.CycleDetected(["a", "b", "a"])
    assert error.path == ("a", "b", "a")
    assert "a -> b -> a" in str(error)


def test_a_cycle_of_views_is_both_kinds_of_error() -> None:
    error = errors.MvCycleDetected(["v", "v"])
    assert isinstance(error, errors.CycleDetected)
    assert isinstance(error, errors.MvError)
    assert isinstance(error, errors.DagError)
    assert error.code == "LMR-2003"


def test_an_unknown_name_suggests_the_nearest() -> None:
    error = errors.NodeNotFound("Normalise", ["normalize", "trades"])
    assert error.suggestion == "normalize"
    assert error.hint == 'did you mean "normalize"?'
    assert errors.NodeNotFound("zzz", ["normalize"]).hint == ""


def test_a_schema_mismatch_names_edge_column_and_both_types() -> None:
    error = errors.SchemaMismatch("a", "b", "price", "decimal(10,2)", "double")
    for part in ("a -> b", '"price"', "decimal(10,2)", "double"):
        assert part in error.message


def test_dependents_are_listed_with_the_way_out() -> None:
    error = errors.HasDependents("v", iter(["w", "x"]))
    assert error.dependents == ("w", "x")
    assert '"w", "x"' in error.detail
    assert "CASCADE" in error.hint


JAVA = (
    "An error occurred while calling o1.collect.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure\n"
    "\tat org.apache.spark.Scheduler.abort(Scheduler.scala:1)\n"
    "Caused by: org.apache.spark.SparkDateTimeException: [BAD_TIME] no time SQLSTATE: 22007\n"
    "\tat org.apache.spark.Cast.eval(Cast.scala:2)"
)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("disk on fire\n  in line 3", "disk on fire"),
        (
            "\n[UNRESOLVED_COLUMN.X] no a. SQLSTATE: 42703; line 1\n== SQL ==",
            "[UNRESOLVED_COLUMN.X] no a.",
        ),
        (JAVA, "[BAD_TIME] no time"),
        (JAVA.replace("[BAD_TIME] ", ""), "An error occurred while calling o1.collect."),
        ("mine\n[NOT_SPARK] what a user's code says", "mine"),
        ("", ""),
    ],
)
def test_the_sentence_that_says_what_happened(message: str, sentence: str) -> None:
    assert first_sentence(message) == sentence
