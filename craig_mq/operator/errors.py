"""Errors of the operator's side.

::

    OperatorError            every one of them; the text is a line that says what to do next
    ├── QueueInUse           somebody consumes the queue: another lease, or a service
    ├── QueueMissing         no queue of that name
    ├── DeliveriesCounted    a quorum queue whose takes count towards deletion
    ├── BadCondition         a --where that cannot be read
    ├── BadPlan              a plan file that is none, or was edited
    ├── BadJournal           a journal of another plan, or one in use
    ├── BadFolder            a drain folder that is incomplete, or was edited
    └── LedgerFailed         the audit ledger can't be opened or written
"""

from __future__ import annotations


class OperatorError(Exception):
    """Something the operator can put right; the text is one line and quotes no message content."""


class QueueInUse(OperatorError):
    """The queue has a consumer, so it cannot be leased."""


class QueueMissing(OperatorError):
    """There is no queue of that name."""


class DeliveriesCounted(OperatorError):
    """Looking at this quorum queue counts towards its delivery limit (rabbitmq-facts, 2)."""


class BadCondition(OperatorError):
    """A condition with an unknown field or operator, or a value of the wrong kind."""


class BadPlan(OperatorError):
    """The file is no plan of this version."""


class BadJournal(OperatorError):
    """The journal belongs to another plan, is held by another process, or was edited."""


class BadFolder(OperatorError):
    """The folder's files and its manifest disagree."""


class LedgerFailed(OperatorError):
    """What can't be written down is not done."""
