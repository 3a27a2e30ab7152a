"""What only its owner should know is not shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from laminar.connectors import register_source
from laminar.errors import BadOption, ConnectorError, SqlSyntaxError
from laminar.errors.secrets import is_secret, look_up, scrub, traceback_of
from laminar.runtime.catalog.redaction import (
    shown_options,
    shown_properties,
    shown_sql,
    without_rows,
)
from laminar.runtime.introspection.system import TABLES
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.statements.show import Showing
from laminar.sql import parse_statement

from ..parts import catalog, snapshot


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("WITH (password = 'a''b', path = 'x')", "WITH (password = '***', path = 'x')"),
        ("WITH (sasl.PASSWORD='x')", "WITH (sasl.PASSWORD='***')"),
        ("WITH ('sasl.jaas.token' = \"x\")", "WITH ('sasl.jaas.token' = '***')"),
        ("WITH (`api-key` = 5 -- mine\n)", "WITH (`api-key` = '***' -- mine\n)"),
        ("WITH (token.path = 'x')", "WITH (token.path = '***')"),
        ("WITH (path = 'password')", "WITH (path = 'password')"),
        ("WITH (path = 'never ends", "***"),
        ("WITH (url = 'pg://me:hush@host/db')", "WITH (url = 'pg://me:***@host/db')"),
        ("WITH (url = 'a=1;Password=hu sh;b=2')", "WITH (url = 'a=1;Password=*** sh;b=2')"),
        ("WITH (sasl.jaas.config = 'x')", "WITH (sasl.jaas.config = '***')"),
        ("WITH (x = 'it''s pwd=hush')", "WITH (x = 'it''s pwd=***')"),
        ("", ""),
    ],
)
def test_texts_hide_the_values_of_secret_options(sql: str, shown: str) -> None:
    assert shown_sql(sql) == shown


@pytest.mark.parametrize(
    "name",
    [
        *("password", "db.passwd", "PWD", "ssl.key.passphrase", "sasl.jaas.config", "dsn"),
        *("account_key", "accountKey", "account.key", "secret_access_key", "sas_token", "pass"),
        *("connection_string", "connectionString", "ssl.keystore.key", "basic.auth.user.info"),
        *("api-key", "bearer_token", "credentials", "Authorization", "user_pass"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("path", "topic", "primary_key", "key", "passengers", "compass", "key_column", "windsn"),
        *("bypass", "sasl.mechanism", "account", "url", "keys", "bootstrap_servers"),
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("postgres://me:hush@host:5432/db", "postgres://me:***@host:5432/db"),
        ("a://u:p@h1,b://v:hush@h2", "a://u:***@h2"),  # rather too much than too little
        ("postgres://me@host/db", "postgres://me@host/db"),
        ("http://host:80/x", "http://host:80/x"),
        ("jdbc:x;user=me;password=hush;ssl=true", "jdbc:x;user=me;password=***;ssl=true"),
        ("host=h password = 'hu sh' user=me", "host=h password = *** user=me"),
        ('Plain required username="me" password="hu;sh";', None),
        ('{"password": "hush", "user": "me"}', '{"password": ***, "user": "me"}'),
        ("Endpoint=sb://x/;SharedAccessKey=hush=", "Endpoint=sb://x/;SharedAccessKey=***"),
    ],
)
def test_secrets_inside_values(value: str, told: str | None) -> None:
    (pair,) = shown_options({"x": value})
    assert pair[1] == (told or 'Plain required username="me" password=***;')
    assert "hu" not in pair[1]


def test_a_connector_says_which_options_are_secret() -> None:
    class Silent:
        append_only = True

    assert not is_secret("license")
    register_source("licensed", lambda _spec: Silent(), secrets=["License"])  # type: ignore[return-value, arg-type]
    assert shown_options({"license": "hush", "path": "x"}, "licensed") == [
        ("license", "***"),
        ("path", "x"),
    ]
    text = "CREATE SOURCE s (x INT) WITH (connector = 'licensed', license = 'hush')"
    assert "hush" not in shown_sql(text, "licensed")
    assert "hush" not in str(SqlSyntaxError("no").at(text + " oops", len(text) + 1))
    assert "hush" not in str(BadOption("licensed", "license", "hush", "more"))


def test_nothing_is_shown_of_a_connector_that_is_not_known_here() -> None:
    options = {"topic": "t", "max_rows": "5"}
    assert shown_options(options, "of python") == [("max_rows", "5"), ("topic", "***")]
    text = "CREATE SOURCE s (x INT DEFAULT 1) WITH (connector = 'of python', topic = 'hush')"
    assert shown_sql(text, "of python") == text.replace("hush", "***")


def test_properties_hide_them_too() -> None:
    told = shown_properties([("owner", "me"), ("contact.password", "x"), ("at", "a://b:hush@c")])
    assert told == [("owner", "me"), ("contact.password", "***"), ("at", "a://b:***@c")]


def test_errors_hide_them_wherever_they_are_said() -> None:
    error = ConnectorError("s", ValueError("cannot reach pg://me:hush@host/db"))
    assert str(error).count("pg://me:***@host/db") == 1
    assert "hush" not in str(BadOption("mine", "url", "pg://me:hush@host", "more"))
    broken = "CREATE SINK k FROM s WITH (url = 'pg://me:hush@host' oops"
    assert "hush" not in str(SqlSyntaxError("no").at(broken, broken.index("oops"), 4))


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        ("[CAST_INVALID_INPUT] The value 'alice' of ...", "[CAST_INVALID_INPUT]"),
        ("ArrowInvalid: [A.B] 'alice'", "it failed"),
        ("ValueError: 'alice'", "ValueError"),
        (
            "OSError: [Errno 111] Connection refused: 'alice'",
            "OSError: [Errno 111] Connection refused",
        ),
        ("[Errno 2] No such file or directory: '/alice'", "[Errno 2] No such file or directory"),
        ("LMR-8004: row 'alice' does not fit", "LMR-8004"),
        ("LMR-8012: the connector of s hangs", "LMR-8012: the connector of s hangs"),
        ("PAUSE SINK was said", "PAUSE SINK was said"),
        (
            "it is 5 epochs behind, more than max_lag_epochs = 4; before that: 'alice'",
            "it is 5 epochs behind, more than max_lag_epochs = 4",
        ),
        ("alice", "it failed"),
    ],
)
def test_a_reason_says_what_kind_it_is_and_nothing_of_rows(reason: str, left: str) -> None:
    assert without_rows(reason, "sinks") == f"{left}; laminar_system.sinks says more"


def test_an_error_that_tells_what_was_looked_up_is_changed_with_all_behind_it() -> None:
    class Stubborn(Exception):
        def __str__(self) -> str:
            return "with hunter3hunter3"

    look_up("password", "hunter3hunter3", "${env:P}")
    plain, top = KeyError("a"), OSError(13, "no entry with hunter3hunter3", "hunter3hunter3")
    top.__cause__, plain.__cause__ = plain, Stubborn()
    assert scrub(top) is top
    assert str(top) == "[Errno 13] no entry with ${env:P}: '${env:P}'"
    assert top.__cause__ is plain
    assert str(plain.__cause__) == "Stubborn: with ${env:P}"
    assert "hunter3" not in traceback_of(top)
    assert str(scrub(Stubborn())) == "Stubborn: with ${env:P}"
    plain.__cause__, plain.__context__ = None, top  # errors may go round
    assert scrub(top) is top


def test_pairs_hide_them_too() -> None:
    options = {"path": "x", "secret_id": "s", "access.key": "k"}
    assert shown_options(options) == [("access.key", "***"), ("path", "x"), ("secret_id", "***")]


SOURCE = "CREATE SOURCE s (x INT, token STRING) WITH (connector = 'mine', password = 'hush')"
SINK = "CREATE SINK k FROM s WITH (connector = 'mine', api_key = 'hush')"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT x FROM s WHERE token = 'x'"


def engine() -> Any:
    """An engine that has a source, a view and a sink, and nothing else."""
    books = SimpleNamespace(sinks=lambda: [SinkDefinition("k", "s", "mine", sql=SINK)])
    seen = snapshot(catalog(f"{SOURCE}; {VIEW}"))
    work = SimpleNamespace(inlets=SimpleNamespace(health=SimpleNamespace(all=dict)))
    return SimpleNamespace(
        snapshot=lambda: seen,
        outputs=SimpleNamespace(sinks=SimpleNamespace(books=books)),
        work=work,
        env=SimpleNamespace(read_only=False),
    )


def test_a_database_tells_its_definitions_without_them() -> None:
    one = engine()
    (row,) = TABLES["sources"].rows(one, one.snapshot())
    assert row[8] == SOURCE.replace("hush", "***")
    showing = Showing(one, SimpleNamespace(), lambda _, rows: rows[0][0])  # type: ignore[arg-type]

    def shown(name: str) -> Any:
        return showing.show(parse_statement(f"SHOW CREATE {name}"))  # type: ignore[arg-type]

    assert shown("s") == SOURCE.replace("hush", "***")
    assert shown("k") == SINK.replace("hush", "***")
    assert shown("v") == VIEW
    assert one.snapshot().catalog.definitions["s"].sql == SOURCE


def test_errors_point_into_a_text_without_them() -> None:
    text = "SELECT token = 'x';\nCREATE SOURCE s (x INT) WITH (sasl.password = 'hu''sh' oops)"
    told = SqlSyntaxError("no").at(text, text.index("oops"), 4)
    assert "hu" not in told.detail
    line, marks = told.detail.splitlines()[-2:]
    assert line[marks.index("^") :] == "oops)"
    assert marks.count("^") == 4
    broken = "CREATE SINK k FROM s WITH (path = 'a;b',\n  api_key = \"hush\" oops"
    assert "hush" not in str(SqlSyntaxError("no").at(broken, broken.index("oops")))
    assert "'hush" not in str(SqlSyntaxError("no").at("WITH (token = 'hush", 0))
    assert "token = 'x'" in str(SqlSyntaxError("no").at(text, 0))
    assert "hush" not in str(BadOption("mine", "password", "hush", "more"))
