"""Settings of Spark that are part of a database, because they decide what its statements answer.

They are taken once, from the session in which a database is created, and kept with it: a view holds
rows that were computed under them, and a delta computed under others would not fit. So whoever
opens the database later works under the same ones, whatever his own session says.

Taken are all that are known to change an answer (`KNOWN`), with the value in effect, for a later
Spark may have another default; and whatever else the session sets, unless it only says how the work
is done (`HARMLESS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from laminar.errors import UnsupportedSparkSetting, UnusableSparkSetting
from laminar.runtime.spark.error_translation import first_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL = "spark.sql."

TIME_ZONE = "spark.sql.session.timeZone"

_TIMES = """
    session.timeZone timestampType timeType.enabled timestampNanosTypes.enabled
    legacy.timeParserPolicy legacy.interval.enabled legacy.fromDayTimeString.enabled
    legacy.typeCoercion.datetimeToString.enabled
"""
_GRAMMAR = """
    ansi.enabled ansi.doubleQuotedIdentifiers ansi.enforceReservedKeywords ansi.relationPrecedence
    caseSensitive groupByAliases groupByOrdinal orderByOrdinal crossJoin.enabled
    prioritizeOrdinalResolutionInSort.enabled lateralColumnAlias.enableImplicitResolution
    operatorPipeSyntaxEnabled parser.escapedStringLiterals parser.quotedRegexColumnNames
    parser.singleCharacterPipeOperator.enabled stableDerivedColumnAlias.enabled
    variable.substitute allowNamedFunctionArguments pivotMaxValues
    cteRecursionLevelLimit cteRecursionRowLimit
    legacy.ctePrecedencePolicy legacy.setopsPrecedence.enabled legacy.bangEqualsNot
    legacy.parser.havingWithoutGroupByAsWhere legacy.consecutiveStringLiterals.enabled
    analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled join.asofJoin.enabled
    legacy.exponentLiteralAsDecimal.enabled legacy.literal.pickMinimumPrecision
    legacy.allowParameterlessCount legacy.allowStarWithSingleTableIdentifierInCount
"""
_VALUES = """
    storeAssignmentPolicy decimalOperations.allowPrecisionLoss
    legacy.decimal.retainFractionDigitsOnTruncate legacy.allowNegativeScaleOfDecimal
    mapKeyDedupPolicy legacy.disableMapKeyNormalization legacy.allowHashOnMapType
    legacy.sizeOfNull legacy.followThreeValuedLogicInArrayExists
    legacy.negativeIndexInArrayInsert legacy.allowNullComparisonResultInArraySort
    legacy.createEmptyCollectionUsingStringType legacy.castComplexTypesToString.enabled
    legacy.nullInEmptyListBehavior legacy.inSubqueryNullability
    legacy.statisticalAggregate legacy.percentileDiscCalculation
    legacy.histogramNumericPropagateInputType legacy.integerGroupingId
    legacy.groupingIdWithAppendedUserGroupBy legacy.scalarSubqueryCountBugBehavior
    optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled
    optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled
    optimizer.decorrelateLimitOffsetLegacyIncorrectOrderHandling.enabled
"""
_TEXTS = """
    icu.caseMappings.enabled collation.allowInMapKeys legacy.collationAwareHashFunctions
    charAsVarchar readSideCharPadding preserveCharVarcharTypeInfo
    legacy.charVarcharAsString legacy.noCharPaddingInPredicate legacy.lpadRpadAlwaysReturnString
    legacy.truncateForEmptyRegexSplit legacy.allowZeroIndexInFormatString
    legacy.javaCharsets legacy.codingErrorAction chunkBase64String.enabled
    function.concatBinaryAsString function.eltOutputAsString
    json.enablePartialResults json.enableExactStringParsing legacy.json.allowEmptyString.enabled
    jsonGenerator.ignoreNullFields columnNameOfCorruptRecord
    variant.allowDuplicateKeys variant.validateUnicodeInJsonParsing
"""
_PYTHON = """
    execution.pythonUDF.arrow.enabled execution.pythonUDF.pandas.intToDecimalCoercionEnabled
    execution.pandas.convertToArrowArraySafely execution.pandas.structHandlingMode
    execution.pandas.inferPandasDictAsMap execution.pyspark.binaryAsBytes
    legacy.execution.pandas.groupedMap.assignColumnsByName
    legacy.execution.pythonUDF.pandas.conversion.enabled
"""

KNOWN: Mapping[str, str] = {
    f"{_SQL}{name}": about
    for names, about in (
        (_TIMES, "how times are read, written and counted"),
        (_GRAMMAR, "what statements mean"),
        (_VALUES, "what is computed"),
        (_TEXTS, "how text is compared, read and written"),
        (_PYTHON, "what functions of Python code are given and give back"),
    )
    for name in names.split()
}
"""Setting -> what it decides."""

_WORK = """
    adaptive. addPartitionInBatch. alwaysInlineCommonExpr analyzer.canonicalization.
    analyzer.maxIterations analyzer.singlePassResolver. artifact. autoBroadcastJoinThreshold avro.
    broadcastTimeout bucketing. cartesianProductExec catalog catalogImplementation cbo. classic.
    cli. codegen. columnVector. connect. constraintPropagation. csv.filterPushdown. csv.parser.
    dataFrameQueryContext. dataSource. dataframeCache. datetime.java8API. debug. defaultCatalog
    defaultCacheStorageLevel defaultSizeInBytes error. event. exchange. execution. experimental.
    expressionTreeChangeLog. extendedExplainProviders extensions fileSource. files. hive.
    inMemoryColumnarStorage. inMemoryTableScanStatistics. join. json.filterPushdown. json.useUnsafe
    leafNodeDefaultParallelism lightweightPlanChangeValidation limit. mapZipWithUsesJavaCollections
    maven. max metadataCacheTTLSeconds nameResolutionLog. objectHashAggregate.
    optimizeNullAwareAntiJoin optimizer. orc. parquet. parser.manageParserCaches parser.parserDfa
    pipelines. planChangeLog. planChangeValidation planner. protobuf. pyspark. python.
    queryExecutionListeners redaction. repl. requireAllClusterKeys runSQLOnFiles scheduler.
    scriptTransformation. session.localRelation sessionWindow. shuffle sort. sortMergeJoinExec.
    sources. stackTracesInDataFrameContext statistics. streaming. subexpressionElimination.
    thriftServer. thriftserver. truncateTable. ui. unionOutputPartitioning view. warehouse. window.
    windowExec.
"""

HARMLESS = tuple(f"{_SQL}{each}" for each in _WORK.split())
"""Beginnings of settings that say how the work is done, or where; no answer depends on them."""

ASOF = "spark.sql.join.asofJoin.enabled"

OWN: Mapping[str, str] = {
    # What `${name}` stands for is not part of the database.
    "spark.sql.variable.substitute": "false",
}
"""Settings for which a database has a value of its own, whatever the session says."""

_NOT_SUPPORTED: Mapping[str, tuple[str, ...]] = {
    "spark.sql.ansi.doubleQuotedIdentifiers": ("false",),
    "spark.sql.caseSensitive": ("false",),
    "spark.sql.parser.escapedStringLiterals": ("false",),
    "spark.sql.parser.quotedRegexColumnNames": ("false",),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ",),
}
"""Setting -> the values under which statements can be maintained."""

PLANNED: Mapping[str, str] = {
    f"{_SQL}{name}": value
    for value, names in {
        "true": """
            groupByAliases groupByOrdinal orderByOrdinal
            lateralColumnAlias.enableImplicitResolution
            analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled
        """,
        "false": """
            ansi.relationPrecedence legacy.setopsPrecedence.enabled legacy.bangEqualsNot
            legacy.parser.havingWithoutGroupByAsWhere legacy.consecutiveStringLiterals.enabled
            legacy.exponentLiteralAsDecimal.enabled legacy.inSubqueryNullability
            legacy.nullInEmptyListBehavior legacy.scalarSubqueryCountBugBehavior
            legacy.groupingIdWithAppendedUserGroupBy
            optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled
            optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled
            optimizer.decorrelateLimitOffsetLegacyIncorrectOrderHandling.enabled
        """,
        "CORRECTED": "legacy.ctePrecedencePolicy",
    }.items()
    for name in names.split()
}
"""Setting -> the value under which queries mean what the planner takes them to mean.

Under another one no query has a rule: Spark runs it as it is written, and so as it is meant.
"""

_UNDEFINED = ("<undefined>", "")


@dataclass(frozen=True, slots=True)
class FixedSettings:
    """Setting -> its value, of those that are part of a database."""

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def chosen(cls, effective: Mapping[str, str]) -> FixedSettings:
        """Choose from what is in effect in the session that creates a database.

        Raises:
            UnsupportedSparkSetting: views cannot be maintained under one of them.
        """
        for name, allowed in _NOT_SUPPORTED.items():
            if name in effective and effective[name].upper() not in map(str.upper, allowed):
                raise UnsupportedSparkSetting(name, effective[name], allowed[0])
        return cls({**effective, **{name: OWN[name] for name in OWN if name in effective}})

    def changes(self, effective: Mapping[str, str]) -> dict[str, str | None]:
        """Return what has to change where others are in effect; None takes a setting back.

        Law: a session with `effective` and these changes is one with `values`, as far as answers
        are concerned. What this database does not know of stays at Spark's own value.
        """
        found: dict[str, str | None] = {
            name: value for name, value in self.values.items() if effective.get(name) != value
        }
        strays = (name for name in effective if name not in self.values and name not in KNOWN)
        return {**found, **dict.fromkeys(strays)}

    def differing(self, effective: Mapping[str, str]) -> list[str]:
        """Return `name: value instead of value` for what a session of somebody's has otherwise."""
        return [
            f"{name}: {self.values.get(name, 'unset')} instead of {effective.get(name, 'unset')}"
            for name in self.changes(effective)
            if name not in OWN
        ]


def in_effect(
    session: SparkSession, given: Mapping[str, str], beside: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings of a session that count for answers, with their values.

    Args:
        session: the session.
        given: what is set in it.
        beside: what is in effect in a session of the same Spark in which nothing was set; known
            settings that are not `given` are looked up there.
    """
    others = (name for name in given if counts(name) and name not in KNOWN)
    found = {name: given[name] for name in others if session.conf.isModifiable(name)}
    known = {name: given[name] for name in KNOWN if name in given}
    if beside is None:
        return found | known | _read(session, KNOWN.keys() - known.keys())
    return found | {name: beside[name] for name in KNOWN if name in beside} | known


def unplanned(given: Mapping[str, str]) -> str:
    """Return what is set so that the planner does not know what queries mean; "" if nothing is."""
    known = (name for name in PLANNED if name in given)
    others = (name for name in known if given[name].upper() != PLANNED[name].upper())
    return next((f"{name} = {given[name]}" for name in others), "")


def counts(name: str) -> bool:
    """Whether answers may depend on a setting."""
    return name in KNOWN or (name.startswith(_SQL) and not name.startswith(HARMLESS))


def _read(session: SparkSession, names: Iterable[str]) -> dict[str, str]:
    """Return the values of settings; one that this Spark does not know, or has no value, is out."""
    found = {}
    for name in names:
        try:
            value = session.conf.get(name)
        except PySparkException:
            continue
        if value is not None and value not in _UNDEFINED:
            found[name] = str(value)
    return found


def put(session: SparkSession, changes: Mapping[str, str | None]) -> None:
    """Change settings of a session.

    Raises:
        UnusableSparkSetting: this Spark refuses one of them.
    """
    for name, value in changes.items():
        try:
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
        except PySparkException as error:
            raise UnusableSparkSetting(name, str(value), first_sentence(error)) from None
