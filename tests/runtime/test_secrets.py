"""What only its owner should know is not shown."""

from __future__ import annotations

import pytest

from laminar.runtime.secrets import shown_options, shown_sql


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
        ("", ""),
    ],
)
def test_texts_hide_the_values_of_secret_options(sql: str, shown: str) -> None:
    assert shown_sql(sql) == shown


def test_pairs_hide_them_too() -> None:
    options = {"path": "x", "secret_id": "s", "access.key": "k"}
    assert shown_options(options) == [("access.key", "***"), ("path", "x"), ("secret_id", "***")]
