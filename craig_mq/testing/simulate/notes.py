"""What the simulation itself puts into the broker's trace: the other half of the evidence."""

from __future__ import annotations

import attrs


@attrs.define(frozen=True, slots=True)
class Invoked:
    """The handler was called, ``attempt`` times for one receipt; ``intact``: its body is unchanged."""

    replica: int
    letter: int
    attempt: int
    park_count: int
    intact: bool


@attrs.define(frozen=True, slots=True)
class Committed:
    """The audit row of this letter is committed: from here on its delivery may be acked."""

    replica: int
    letter: int


@attrs.define(frozen=True, slots=True)
class Returned:
    """The handler returned after its commit: this receipt's work is finished."""

    replica: int
    letter: int


@attrs.define(frozen=True, slots=True)
class ShutdownAsked:
    """A subscription that runs was asked to shut down gracefully."""

    replica: int


@attrs.define(frozen=True, slots=True)
class Dialled:
    """A subscription dials; ``open_roles`` it still holds, ``handling`` handlers of it still run."""

    replica: int
    role: str
    open_roles: tuple[str, ...]
    handling: int


@attrs.define(frozen=True, slots=True)
class Redriven:
    """An operator sent a quarantined letter back for another round."""

    letter: int


@attrs.define(frozen=True, slots=True)
class QueueDeleted:
    """An operator is about to delete a queue: what is in it, or taken from it, is destroyed."""

    queue: str
