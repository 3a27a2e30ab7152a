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


class SparkAccessUnavailable(LaminarError):
    """The environment variable LAMINAR_SPARK asks for a way to use Spark that there is not.

    It is meant for tests. `fast` goes through Spark's internals, which must be those of a version
    that is known, and cannot be reached over Spark Connect; `portable` always works.
    """

    code: ClassVar[str] = "LMR-0006"

    def __init__(self, way: str, reason: str) -> None:
        super().__init__(
            f"cannot use Spark the {way} way",
            detail=reason,
            hint="unset LAMINAR_SPARK, and what is possible is used",
        )
        self.way = way
        self.reason = reason


class SparkLost(LaminarError):
    """Spark is gone, or does not answer any more, in the middle of the work or before it.

    Its Java process was killed, ran out of memory or hangs, or somebody stopped the session.
    Nothing was committed by half, and nothing that was committed is lost. Where Laminar started
    Spark itself, the next call starts another one and goes on; `start()` does so without a call.
    With a session of yours, close the database and open it with a new session: `close` works.
    """

    code: ClassVar[str] = "LMR-0007"

    def __init__(self, reason: str, *, is_restarted: bool) -> None:
        super().__init__(
            "the Spark of this database is lost",
            detail=reason,
            hint="call again: the next call starts another Spark and goes on"
            if is_restarted
            else "close the database, and open it with a new session",
        )
        self.reason = reason
        self.is_restarted = is_restarted
        """Whether the next call starts another one."""


class PortUnavailable(LaminarError):
    """The console cannot listen where it was told to.

    Another process has the port, the host is none of this machine's, or the port needs rights that
    you do not have. `--port 0` takes any that is free.
    """

    code: ClassVar[str] = "LMR-0004"

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host}, port {port}",
            detail=reason,
            hint="choose another port with --port; --port 0 takes one that is free",
        )
        self.host = host
        self.port = port
        self.reason = reason


class BadRequest(LaminarError):
    """The console was asked for something that it does not have, or in a way it does not know.

    docs/console.md lists what there is.
    """

    code: ClassVar[str] = "LMR-0005"

    def __init__(self, message: str, *, status: int = 404) -> None:
        super().__init__(message, hint="/api/status, /api/dag, /api/epochs and /metrics are there")
        self.status = status
