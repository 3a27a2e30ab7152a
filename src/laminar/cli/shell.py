"""The interactive shell: a prompt, history, completion, and statements over many lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer

from laminar.cli.commands import run_all
from laminar.cli.completion import SqlCompleter
from laminar.cli.input import is_complete, parse_steps
from laminar.cli.output import Printer, print_error
from laminar.cli.step_runner import Runner
from laminar.errors import LaminarError
from laminar.runtime.introspection.system import TABLES
from laminar.runtime.spark.session_functions import known_functions
from laminar.session import Database
from laminar.sql.system import SYSTEM

PROMPT = "laminar> "
CONTINUED = "      -> "
BANNER = "Statements end with ; and commands start with \\ (\\? lists them). Ctrl-D leaves."


class Shell:
    """Reads, runs, prints, until told to leave. An error is shown, and the next line is read."""

    def __init__(
        self,
        runner: Runner,
        history: History,
        *,
        keyboard: Input | None = None,
        screen: Output | None = None,
    ) -> None:
        self._runner = runner
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=Condition(self._goes_on),
            prompt_continuation=CONTINUED,
            history=history,
            completer=SqlCompleter(DatabaseNames(runner.db)),
            complete_while_typing=False,
            complete_in_thread=True,  # the list of functions is asked of Spark
            lexer=PygmentsLexer(SqlLexer),
            enable_history_search=True,
            input=keyboard,
            output=screen,
        )

    def _goes_on(self) -> bool:
        return not is_complete(self._session.default_buffer.text)

    def run(self) -> None:
        """Talk until Ctrl-D or a command that ends it."""
        while True:
            try:
                text = self._session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not self._answer(text):
                return

    def _answer(self, text: str) -> bool:
        try:
            return run_all(self._runner, parse_steps(text))
        except LaminarError as error:
            print_error(error)
        except KeyboardInterrupt:
            self._runner.printer.note("cancelled")
        return True


class DatabaseNames:
    """The names of a database, for completion."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def relations(self) -> Mapping[str, Sequence[str]]:
        """Return relation -> columns, those of the system too."""
        catalog = self._db.engine.defined.catalog
        own = {name: catalog.shape(name).columns for name in catalog.definitions}
        system = {f"{SYSTEM}.{name}": table.shape.columns for name, table in TABLES.items()}
        return own | system

    def functions(self) -> Iterable[str]:
        """Return the functions that a query may call."""
        return known_functions(self._db.engine.env.spark)


def open_history(folder: Callable[[str], str] = typer.get_app_dir) -> History:
    """Return the history in the user's own folder; in memory if that cannot be written."""
    path = Path(os.environ.get("LAMINAR_HISTORY") or Path(folder("laminar")) / "history")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Statements may hold what is nobody else's business.
        path.touch(mode=0o600)
        with path.open("ab"):
            pass
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def run_shell(db: Database, **terminal: Any) -> None:
    """Talk until the user leaves; the database stays open."""
    printer = Printer(chatty=True)
    printer.note(BANNER)
    Shell(Runner(db, printer), open_history(), **terminal).run()
