from __future__ import annotations

from laminar.connectors.sink import AT_LEAST_ONCE
from laminar.runtime.statements.attach_dag import CodeSink


def test_a_function_as_a_sink_promises_what_it_can() -> None:
    assert CodeSink(lambda *_: None).promise == AT_LEAST_ONCE
