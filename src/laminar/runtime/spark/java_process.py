# ruff: noqa: SLF001 - what PySpark has no documented name for
"""The Java process behind a session: whether it is there and answers, and how it is left behind.

PySpark knows one gateway for as long as Python lives, whatever becomes of the process behind it.
Another Java can be started once all that PySpark holds of the dead one is forgotten.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakMethod

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PING = b"c\nz:java.lang.System\ncurrentTimeMillis\ne\n"
"""A call of a static method, as Py4J writes it."""

_OUT_OF_MEMORY = (3, 52)
"""How Java ends that was told to end when memory runs out, and how Spark does."""

_PATIENCE = 5.0
"""Seconds until a process that was killed is seen to be dead."""

Start = Callable[[], "SparkSession"]

_STARTED: dict[int, Start] = {}
"""Process that we have started -> how to start another one like it."""

_FILLED: WeakKeyDictionary[SparkSession, list[WeakMethod[Callable[[], object]]]] = (
    WeakKeyDictionary()
)
"""Session -> what is called when it has moved to another Java."""


class JavaProcess:
    """One Java process, and the Spark context that runs in it.

    Args:
        spark: a session of it.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext
        self._gateway: Any = self._context._gateway
        self._child: subprocess.Popen[bytes] | None = vars(self._gateway).get("proc")
        self.pid = self._asked_pid() if self._child is None else self._child.pid
        self._folders = _folders_of(self._context)
        self._blame = ""

    @classmethod
    def of(cls, spark: SparkSession) -> JavaProcess | None:
        """Return the process of a session; None over Spark Connect, where it is far away."""
        return cls(spark) if hasattr(spark, "_jsparkSession") else None

    @property
    def gateway(self) -> object:
        """What all sessions of the process have in common."""
        return self._gateway

    @property
    def again(self) -> Start | None:
        """Start another one like it; None if it is not ours."""
        return _STARTED.get(self.pid)

    def ending(self) -> str | None:
        """Say how it ended; None while it runs."""
        status = None if self._child is None else self._child.poll()
        if status is not None:
            return self._blame or _told(status)
        return "its session was stopped" if self._context._jsc is None else None

    def ends(self) -> bool:
        """Say whether it is dead or dying: its connections end before it is seen to be."""
        if self.answers():
            return False
        if self._child is None:
            return True
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE)
        return self.ending() is not None

    def was_stopped(self) -> bool:
        """Ask whether its context was stopped, by whoever did so in Java."""
        try:
            return bool(self._context._jsc.sc().isStopped())
        except Exception:
            return self.ends()

    def answers(self, within: float = 1.0) -> bool:
        """Say whether it answers, on a connection that nobody else uses.

        Args:
            within: seconds, for each thing that it has to do.
        """
        asked = self._gateway.gateway_parameters
        try:
            with socket.create_connection((asked.address, asked.port), within) as made:
                _asked(made, f"A\n{asked.auth_token}\n".encode())
                return bool(_asked(made, _PING))
        except OSError:
            return False

    def is_halted(self) -> bool:
        """Say whether the system does not let it run, as after SIGSTOP; known on Linux alone."""
        with suppress(OSError):
            told = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
            return told.rpartition(") ")[2][:1] in ("T", "t")
        return False

    def kill(self, why: str) -> None:
        """End it at once, which ends all that waits for it."""
        if self._child is not None and self._child.poll() is None:
            self._blame = why
            self._child.kill()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_PATIENCE)

    def cut(self) -> None:
        """End all connections to it, so that nobody waits for an answer; on Linux alone."""
        reaching = connections_to(set(_inodes(self.pid)), _table())
        for fd, inode in _sockets(os.getpid()):
            if inode in reaching:
                with suppress(OSError), socket.socket(fileno=os.dup(fd)) as found:
                    found.shutdown(socket.SHUT_RDWR)

    def leave(self, *, is_hung: bool = False) -> None:
        """Let PySpark forget a process that is dead, so that another one can be started.

        Args:
            is_hung: it may be alive, but does not answer. If it ever runs again, it ends, for its
                input is closed; until then it is its owner's, with its files.
        """
        if self._child is None or (self._child.poll() is None and not is_hung):
            return
        _STARTED.pop(self.pid, None)
        _forget(self._gateway, self._context)
        if self._child.poll() is not None:
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _asked_pid(self) -> int:
        handle: Any = getattr(self._gateway.jvm, "java.lang.ProcessHandle")
        return int(handle.current().pid())


def note_start(spark: SparkSession, again: Start) -> None:
    """Note that the process of a session is ours, unless somebody else has started it."""
    if hasattr(spark, "_jsparkSession"):
        child = vars(spark.sparkContext._gateway).get("proc")
        if child is not None:
            _STARTED.setdefault(child.pid, again)
            # It says at length that the Java is gone that would send it something.
            server: Any = spark.sparkContext._accumulatorServer
            server.handle_error = _say_nothing


def _say_nothing(*_about: object) -> None:
    """Leave it to those who wait for Java to say that it is gone."""


def has_gateway() -> bool:
    """Say whether there is a Java in which Spark can be started; one that is dead is forgotten."""
    from pyspark import SparkContext

    found: Any = SparkContext._gateway
    child = None if found is None else vars(found).get("proc")
    if child is not None and child.poll() is not None:
        _forget(found, SparkContext._active_spark_context)
        return False
    return found is not None


def move(session: SparkSession, beside: SparkSession) -> None:
    """Let a session of a Java that is gone be a new one beside another; it keeps nothing."""
    before, made = vars(session), vars(beside.newSession())
    before.update(made)
    for cached in before.keys() - made.keys():
        del before[cached]


def on_renewal(session: SparkSession, again: Callable[[], object]) -> None:
    """Have a method called when a session has moved; who is gone by then is not called."""
    _FILLED.setdefault(session, []).append(WeakMethod(again))


def refill(session: SparkSession) -> None:
    """Tell those who filled a session that nothing of that is left."""
    for again in [each() for each in _FILLED.get(session, ())]:
        if again is not None:
            again()


def _told(status: int) -> str:
    if status in _OUT_OF_MEMORY:
        return "its Java process ran out of memory"
    if status < 0:
        return f"its Java process was killed by signal {-status}"
    return f"its Java process ended with status {status}"


def _folders_of(context: Any) -> list[Path]:
    """Return where a context keeps its files; a process that is killed leaves them behind."""
    made = Path(str(getattr(context, "_temp_dir", "")))
    return [made.parent] if made.parent.name.startswith("spark-") else []


def _asked(probe: socket.socket, command: bytes) -> bytes:
    """Return the answer to one command; each is a line."""
    probe.sendall(command)
    told = b""
    while not told.endswith(b"\n"):
        more = probe.recv(256)
        if not more:
            raise ConnectionError
        told += more
    return told


def _forget(gateway: Any, context: Any) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    if context is not None and context._gateway is gateway:
        context._jsc = None
        server, context._accumulatorServer = getattr(context, "_accumulatorServer", None), None
        if server is not None:
            server.shutdown()
    _close(gateway)
    with SparkContext._lock:
        if SparkContext._gateway is gateway:
            SparkContext._gateway = SparkContext._jvm = None
            SparkContext._active_spark_context = None
            classes: tuple[Any, ...] = (SparkSession, SQLContext)
            classes[0]._instantiatedSession = classes[0]._activeSession = None
            classes[1]._instantiatedContext = None


def _close(gateway: Any) -> None:
    """Close what Python has of a dead gateway: connections, the pipe, and threads of Py4J."""
    client = gateway._gateway_client
    client.is_connected = False
    client._create_new_connection = client._create_connection = _refuse
    client.close()
    ends = getattr(client, "finalizer_deque", None)
    if ends is not None:
        from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

        ends.appendleft(SHUTDOWN_FINALIZER_WORKER)
    child = vars(gateway).get("proc")
    if child is not None and child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()


def _refuse() -> Any:
    """Connect to nobody: another process may have the port by now."""
    from py4j.protocol import Py4JNetworkError

    raise Py4JNetworkError("the Java process is gone")


def _sockets(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the sockets that a process has open: number and inode."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(entry.readlink())
                if target.startswith("socket:["):
                    yield int(entry.name), target[len("socket:[") : -1]


def _inodes(pid: int) -> Iterator[str]:
    return (inode for _, inode in _sockets(pid))


class Connection(NamedTuple):
    """One line of the system's table of sockets; ports alone: one end may be of IPv6."""

    here: str
    there: str
    state: str
    inode: str


def connections_to(theirs: Collection[str], table: Collection[Connection]) -> set[str]:
    """Return the ends of all connections to a process within this machine.

    One that the process has not accepted, because it is halted, is nobody's yet: it has no number
    (0), but it leads to a port where the process listens.

    Args:
        theirs: the sockets that the process has.
        table: all sockets of the machine.
    """
    ends = {(each.here, each.there): each.inode for each in table}
    listening = {each.here for each in table if each.state == _LISTENS and each.inode in theirs}
    return {
        each.inode
        for each in table
        if (other := ends.get((each.there, each.here))) is not None
        and (other in theirs or (other == _NOBODY and each.there in listening))
    }


_LISTENS, _NOBODY = "0A", "0"


def _table() -> list[Connection]:
    found = []
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
                cells = line.split()
                found.append(Connection(_port(cells[1]), _port(cells[2]), cells[3], cells[9]))
    return found


def _port(address: str) -> str:
    return address.rpartition(":")[2]
