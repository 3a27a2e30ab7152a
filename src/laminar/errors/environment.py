"""What can be wrong with the machine Laminar runs on."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.base import LaminarError


class JavaUnavailable(LaminarError):
    """No Java that can run Spark was found on this machine.

    Install a Java 17+ runtime, for example `apt-get install openjdk-17-jre-headless` or
    `brew install openjdk@17`, or point JAVA_HOME at one.
    """

    code: ClassVar[str] = "LMR-0002"

    def __init__(self, problem: str) -> None:
        super().__init__(
            "no usable Java found",
            detail=problem,
            hint="install a Java 17+ runtime or point JAVA_HOME at one",
        )
        self.problem = problem


class SparkUnavailable(LaminarError):
    """Spark could not be started, or the cluster could not be reached.

    The detail is Spark's own sentence. Check the master (`local[*]`, `spark://host:port`, `yarn`,
    `k8s://...`) and what Java printed before it.
    """

    code: ClassVar[str] = "LMR-0003"

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(
            f"no Spark at {master}",
            detail=reason,
            hint="check the master, such as local[*] or spark://host:port; --verbose shows more",
        )
        self.master = master
        self.reason = reason
