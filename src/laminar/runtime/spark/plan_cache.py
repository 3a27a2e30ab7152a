"""Prepared statements: analysed and planned once, run in every epoch.

Law: a plan holds for other rows if neither their number nor the moment had a say in it. Sizes
choose how a join is made, and moments stand for CURRENT_TIMESTAMP or 'now', so a statement with a
join, a subquery or such a word keeps its meaning only and is planned each time. Strings such as
'09:00' are of today, so no plan is kept for longer than that is sure. What a plan takes from the
session's settings, and the list of files, Spark looks up when it prepares a plan to be run, which
it does with a copy each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZELESS = frozenset(
    {
        "Aggregate",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "LocalLimit",
        "LocalRelation",
        "LogicalRelation",
        "OneRowRelation",
        "Project",
        "Repartition",
        "Sort",
        "Union",
        "Window",
        "WindowGroupLimit",
    }
)
"""Spark's operators of which there is one way to run them, however many rows there are.

What is not listed is not known to be one of them.
"""

_KEPT_FOR = 15 * 60
"""Seconds, counted from full quarters of an hour: nowhere does a day begin in between."""


@dataclass(slots=True)
class PreparedStatement:
    """A statement that can be run again and again."""

    analysed: DataFrame
    planner: Planner
    plan: Any | None = None
    """Spark's physical plan as a leaf of a logical one; None if there is none, or not yet."""
    _has_come: bool = False
    _was_tried: bool = False
    _quarter: int = 0

    def frame(self) -> DataFrame:
        """Return a frame that reads what there is to read when it runs."""
        quarter = int(time() // _KEPT_FOR)
        if self.plan is not None and self._quarter == quarter:
            return self.planner.copy(self.plan)
        # A frame plans once and keeps that, with the files it found; another name plans again.
        anew = self.analysed.alias("__now")
        # Many statements name a moment and come only once: for them, all else is in vain.
        if self.plan is not None or (self._has_come and not self._was_tried):
            self._was_tried = True
            self.plan, self._quarter = self.planner.plan(anew), quarter
        self._has_come = True
        return anew


class FolderRelation:
    """Spark's relation over a folder, shared by all statements that read it.

    Args:
        folder: a frame of its files.
    """

    def __init__(self, folder: DataFrame) -> None:
        self._java = _analysed(folder)

    def list_again(self) -> int:
        """Let statements read the files that are there now; return how many Spark has found."""
        self._java.refresh()
        return len(self._java.relation().location().inputFiles())


class Planner:
    """What a session's statements are prepared with.

    Args:
        session: where they run.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        # Looked up here, once: each step down a package asks the JVM.
        spark = session._jvm.org.apache.spark.sql  # type: ignore[union-attr]  # noqa: SLF001
        self._of_rows = spark.classic.Dataset.ofRows
        self._stage = spark.execution.adaptive.LogicalQueryStage
        self._one_task_mark = _one_task_mark(spark.execution.datasources)
        self._rules = spark.catalyst.optimizer
        self._patterns = spark.catalyst.trees.TreePattern

    def plan(self, frame: DataFrame) -> Any | None:
        """Return a plan for good, if there can be one."""
        execution = _execution(frame)
        if not self._holds(execution):
            return None
        # How Spark itself puts what it has planned into a plan that is not finished.
        plan = self._stage(execution.optimizedPlan(), execution.sparkPlan())
        plan.setAnalyzed()
        return plan

    def copy(self, plan: Any) -> DataFrame:
        """Return a frame of a plan; of a copy, because each frame leaves a mark on its plan."""
        return self.frame(plan.clone())

    def frame(self, plan: Any) -> DataFrame:
        """Return a frame of a logical plan."""
        java = self._of_rows(self._session._jsparkSession, plan)  # noqa: SLF001
        return ClassicFrame(java, self._session)

    def by_one_task(self, folder: DataFrame) -> DataFrame:
        """Return a frame of a folder's rows in one partition, if it is small enough for that.

        One partition is what every operator asks of its input: nothing is shuffled. A `coalesce`
        says so too, but it cuts generated code in two, and rows have to be made in between.
        """
        if self._one_task_mark is None:
            return folder.coalesce(1)
        marked = _analysed(folder).clone()
        marked.setTagValue(self._one_task_mark, True)
        return self.frame(marked)

    def _holds(self, execution: Any) -> bool:
        """Say whether a plan is right for other rows, at another time."""
        analysed = execution.analyzed()
        if analysed.containsPattern(self._patterns.CURRENT_LIKE()) or self._names_moment(analysed):
            return False
        optimised = execution.optimizedPlan()
        return not optimised.containsPattern(self._patterns.PLAN_EXPRESSION()) and all(
            node in _SIZELESS for node in _nodes(optimised)
        )

    def _names_moment(self, analysed: Any) -> bool:
        """Say whether a string means a moment, such as 'now', in a plan."""
        written_out = self._rules.ReplaceExpressions.apply(analysed)
        return not self._rules.SpecialDatetimeValues.apply(written_out).fastEquals(written_out)


def _execution(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution()  # noqa: SLF001


def _analysed(frame: DataFrame) -> Any:
    return _execution(frame).analyzed()


def _one_task_mark(datasources: Any) -> Any | None:
    """Return the tag of relations that one task shall read; Spark has it from 4.3 on."""
    marking = datasources.MarkSingleTaskExecution
    return marking.markTag() if isinstance(marking, JavaClass) else None


def _nodes(plan: Any) -> list[str]:
    """Return the names of all operators of a plan."""
    children = plan.children()
    found = [str(plan.getClass().getSimpleName())]
    for place in range(children.size()):
        found += _nodes(children.apply(place))
    return found
