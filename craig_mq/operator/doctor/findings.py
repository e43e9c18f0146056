"""What a check found, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs


class Level(enum.StrEnum):
    """How bad it is. UNKNOWN is honest: with what it was given, nobody could tell."""

    OK = "OK"
    UNKNOWN = "UNKNOWN"
    WARN = "WARN"
    FAIL = "FAIL"


@attrs.define(frozen=True, slots=True)
class Finding:
    """One check of one thing; ``todo`` says what to do, empty where there is nothing to do."""

    check: str
    subject: str
    level: Level
    text: str
    todo: str = ""


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """The exit code for CI: 1 if anything FAILs; ``strict`` counts WARN and UNKNOWN as failures too."""
    levels = {finding.level for finding in findings}
    if strict:
        return int(bool(levels - {Level.OK}))
    return int(Level.FAIL in levels)
