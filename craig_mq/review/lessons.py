"""Eight lessons: parameter changes worth a look, each in a paragraph whose numbers are read off its run.

The page, the offline file and the tutorial in the documentation print the same texts.
"""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from craig_mq.review.model import Run, simulate
from craig_mq.review.outcomes import Outcome, counted, outcome
from craig_mq.review.params import Params


@frozen
class Lesson:
    """One lesson: a short `name` for addresses, a title, its parameters and the paragraph for its run."""

    name: str
    title: str
    params: Params
    tell: Callable[[Run, Outcome], str]

    @property
    def text(self) -> str:
        """The paragraph, with every number computed now."""
        run = simulate(self.params)
        return self.tell(run, outcome(run))


def _default(_: Run, end: Outcome) -> str:
    first = end["first_pass"]
    return (
        f"After the first pass {counted(first['quarantined'], 'message')} sit in quarantine, yet "
        f"{counted(first['effects_total'], 'effect')} already happened: healthy's, and uncertain's, whose "
        "acknowledgement was lost after the commit. A dead-letter entry does not prove that its operation "
        "never committed. The operator waits, repairs both faults and redrives all: "
        f"{end['acked']} acknowledged and exactly {counted(end['effects_total'], 'effect')}."
    )


def _three_receives(run: Run, end: Outcome) -> str:
    (committed_at,) = (row.at for row in run.ledger if row.intent == "transient")
    return (
        "The attempt budget counts the first delivery. With two receives per cycle transient ends in "
        f"quarantine; with {run.params.max_receives} its third delivery succeeds at {committed_at} s, inside "
        f"the source cycle, and only {counted(end['first_pass']['quarantined'], 'message')} wait for the "
        "operator. Healthy never waits for poison: this experiment keeps no strict order between messages."
    )


def _unrepaired(_: Run, end: Outcome) -> str:
    return (
        "A redrive without a repair gives each message a fresh cycle and keeps its total: poison and "
        "uncertain use up the new cycle, "
        f"{end['total_receives']['poison']} receives in all, and return to quarantine. "
        "Transient recovers, because its outage covered only its first two deliveries. The run ends with "
        f"{end['quarantined']} in quarantine after {end['redrives']} redrives; nothing is redriven twice."
    )


def _new_identity(_: Run, end: Outcome) -> str:
    return (
        "A new identity on redrive hands the handler a key it has never seen. Uncertain's first commit is "
        f"stored under uncertain/1, its redrive asks for {end['key']['uncertain']}: it commits again. All "
        f"{end['acked']} messages are acknowledged, and the counter stands at {end['effects_total']} instead "
        "of four."
    )


def _dedup_off(_: Run, end: Outcome) -> str:
    return (
        "Without deduplication every delivery that reaches the effect commits. Uncertain's "
        f"{end['first_pass']['effects_total'] - 1} source deliveries and its repaired redrive make "
        f"{end['effects']['uncertain']} effects for one intent, {end['effects_total']} overall. The "
        "quarantine looks the same as before; only the ledger shows it. "
        "A result retention of zero does the same."
    )


def _exact_expiry(run: Run, end: Outcome) -> str:
    return (
        "A stored result is valid strictly before its expiry, measured from the commit. Uncertain committed "
        f"at 0 s with {run.params.result_retention} s of result retention and is redriven at "
        f"{end['inspected_at']} s, the exact expiry: it executes again, {end['effects_total']} effects. One "
        "second less of waiting returns the stored result instead."
    )


def _message_expired(run: Run, end: Outcome) -> str:
    return (
        "Quarantine retention counts from the entry into quarantine. After a wait of "
        f"{run.params.operator_wait} s with a retention of {run.params.quarantine_retention} s, "
        f"{counted(end['expired'], 'message')} have reached the limit, expire and cannot be redriven. Their "
        f"effects stay: the ledger still holds {end['effects_total']}. Expiry never rolls an effect back."
    )


def _result_gone(run: Run, end: Outcome) -> str:
    return (
        f"The two retentions are independent. After {run.params.operator_wait} s a quarantine retention of "
        f"{run.params.quarantine_retention} s has kept every message, but uncertain's stored result expired "
        f"at {run.params.result_retention} s. Its redrive at {end['inspected_at']} s carries the same stable "
        f"key and still duplicates its effect: {end['effects_total']} effects for {end['acked']} messages."
    )


LESSONS: Final = (
    Lesson("default", "A dead letter is not a proof", Params(), _default),
    Lesson("three-receives", "One more receive", Params(max_receives=3), _three_receives),
    Lesson("unrepaired", "Redrive without a repair", Params(repair=False), _unrepaired),
    Lesson("new-identity", "A new identity commits again", Params(identity="new"), _new_identity),
    Lesson("dedup-off", "No deduplication", Params(dedup=False), _dedup_off),
    Lesson(
        "exact-expiry", "Exactly at the expiry", Params(retry_interval=10, operator_wait=50), _exact_expiry
    ),
    Lesson(
        "message-expired",
        "The message expired",
        Params(operator_wait=60, quarantine_retention=60),
        _message_expired,
    ),
    Lesson("result-gone", "Message kept, result gone", Params(operator_wait=60), _result_gone),
)
