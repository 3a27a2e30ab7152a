"""What can be wrong with the use of a database as a whole."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.base import LaminarError
from laminar.errors.sql import SqlError


class DatabaseClosed(LaminarError):
    """Something was asked of a database that is closed.

    Open it again with `laminar.connect`; everything committed or inserted before is still there,
    unless the database was a temporary one.
    """

    code: ClassVar[str] = "LMR-5001"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the database is closed: {path}", hint="open it again with laminar.connect"
        )
        self.path = path


class UnsupportedAddress(LaminarError):
    """A database was to be opened at an address of a scheme that is not supported.

    Its folder is on this machine, or on a file system that is mounted here: give its path, or
    `file://` and the path. A folder whose name looks like an address is written `./s3:/...`.
    """

    code: ClassVar[str] = "LMR-5005"

    def __init__(self, address: str, reason: str = "") -> None:
        super().__init__(
            f"no database can be at {address}",
            detail=reason or "only paths, and addresses that begin with file://, are supported",
            hint="give the path of a folder, on this machine or mounted",
        )
        self.address = address


class WriterBusy(LaminarError):
    """Somebody else was writing for as long as this call was ready to wait; it has done nothing.

    One thread at a time changes definitions or runs epochs. The message says who it is and since
    when. Wait for it and call again, or wait longer from the start: `laminar.writer_timeout_ms`.
    """

    code: ClassVar[str] = "LMR-5002"

    def __init__(self, what: str, seconds: float, thread: str = "") -> None:
        super().__init__(
            f"another writer is busy: {what} runs since {seconds:.0f} s",
            detail=f"on the thread {thread}" if thread else "",
            hint="call again when it is done, or raise laminar.writer_timeout_ms",
        )
        self.what = what
        self.seconds = seconds


class TableRedefined(LaminarError):
    """A table was dropped and created otherwise while a call was about to change its rows.

    Another thread did so, or a restore. The rows were made for the columns and the key of before,
    so nothing was changed. Call again: the rows are then checked against the table of now.
    """

    code: ClassVar[str] = "LMR-5004"

    def __init__(self, table: str) -> None:
        super().__init__(
            f'the table "{table}" was defined anew while its rows were about to be changed',
            hint="nothing was changed: call again",
        )
        self.table = table


class WriteWithinEpoch(LaminarError):
    """Code that an epoch runs asked for something that has to wait for the end of that epoch.

    It would wait for itself, so it is refused at once. An operator, and a source that is polled,
    may read the database and insert rows into tables without a key. Steps and statements that
    define something are for whoever runs the epochs: do them after `step`, or in a function that
    was given to `on_epoch`.
    """

    code: ClassVar[str] = "LMR-5003"

    def __init__(self, what: str, node: str) -> None:
        super().__init__(
            f'an epoch would wait for itself: "{node}", which it waits for, asks for {what}',
            hint="do it when the epoch is over, for example in a function given to on_epoch",
        )
        self.what = what
        self.node = node


class FixedSparkSetting(SqlError):
    """A setting of Spark was to be changed that is part of the database.

    The session's time zone, ANSI mode, and all other settings of Spark that decide what a statement
    answers are taken from the session that creates a database, and kept with it: its views hold
    rows that were computed under them. `laminar_system.settings` lists them. Under other settings
    every view would have to be computed anew from rows that may be gone, so make another database:
    configure a Spark session, and connect to a new folder with `laminar.connect(path, spark=...)`.
    """

    code: ClassVar[str] = "LMR-5010"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a setting of Spark is part of the database and stays as it is: {name}",
            hint="configure a Spark session, and create another database with it",
        )
        self.name = name


class UnusableSparkSetting(LaminarError):
    """This Spark refuses a setting that the database was created with.

    Its views hold rows that were computed under that setting, so nothing is answered without it.
    The detail is what Spark says: it may not know a time zone, or no longer have the setting. Open
    the database with the Spark (and Java) that it was created with, or a newer one.
    """

    code: ClassVar[str] = "LMR-5011"

    def __init__(self, name: str, value: str, reason: str) -> None:
        super().__init__(
            f"this Spark does not take a setting of the database: {name} = {value}",
            detail=reason,
            hint="open the database with the version of Spark and Java that it was created with",
        )
        self.name = name
        self.value = value


class UnsupportedSparkSetting(LaminarError):
    """A database was to be created by a session of Spark with a setting that views cannot have.

    A new database takes the settings that decide what statements answer from the session that
    creates it. Under this one, statements are read in a way that the engine does not know. Set it
    to the value in the hint while the database is created; afterwards the session may set it as it
    likes, for the database has its own.
    """

    code: ClassVar[str] = "LMR-5012"

    def __init__(self, name: str, value: str, wanted: str) -> None:
        super().__init__(
            f"a database cannot be created under {name} = {value}",
            hint=f"set it to {wanted} in the session that creates the database",
        )
        self.name = name
        self.value = value
