"""The whole synthetic run as one JSON text, byte-identical for the same parameters."""

import json
from typing import Final

from attrs import asdict

from craig_mq.review.events import record
from craig_mq.review.model import Run
from craig_mq.review.outcomes import outcome

SCHEMA: Final = "craig_mq.review/1"
NOTE: Final = (
    "Synthetic: an offline application-policy experiment, not a live broker. "
    "Times are modeled seconds, not measured queue latency."
)


def run_record(run: Run) -> dict[str, object]:
    """Return the export's object: parameters, events, snapshots, ledger and outcome."""
    return {
        "schema": SCHEMA,
        "note": NOTE,
        "parameters": run.params.as_dict(),
        "events": [record(number, event) for number, event in enumerate(run.events, start=1)],
        "snapshots": [snapshot.record() for snapshot in run.snapshots],
        "ledger": [asdict(row) for row in run.ledger],
        "outcome": outcome(run),
    }


def export(run: Run) -> str:
    """Return the run as JSON with sorted keys, no padding and one newline at the end."""
    return json.dumps(run_record(run), sort_keys=True, separators=(",", ":")) + "\n"
