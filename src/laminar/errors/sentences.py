"""The one sentence of a long message that says what happened."""

from __future__ import annotations

import re

_JAVA_STACK = "\n\tat "

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] \S[^\n]*")
"""How Spark begins its own sentences, somewhere among those of a Java stack."""


def first_sentence(message: str) -> str:
    """Return what a message says, without the plan, the Java stack and the SQLSTATE of Spark's."""
    found = _CONDITION.search(message) if _JAVA_STACK in message else None
    line = found[0] if found else message.strip().partition("\n")[0]
    return line.partition(" SQLSTATE")[0].strip()
