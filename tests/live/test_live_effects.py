"""The effect ledger's bound: a stored result counts strictly before its expiry, from its commit."""

import pytest

from craig_mq.live.effects import EffectLedger


@pytest.mark.parametrize(
    ("retention", "repeat_at", "outcome"),
    [(60, 59, "hit"), (60, 60, "effect"), (0, 0, "effect"), (None, 0, "effect")],
)
def test_a_result_is_valid_strictly_before_its_expiry(retention, repeat_at, outcome):
    """A repeat before the expiry is a hit; at it, with no retention or no deduplication it is an effect."""
    at = 0
    with EffectLedger(retention, lambda: at) as ledger:
        assert ledger.apply("uncertain", "token") == "effect"
        at = repeat_at
        assert ledger.recorded == {"token": outcome == "hit"}
        assert ledger.apply("uncertain", "token") == outcome
        assert len(ledger.effects) == 1 + (outcome == "effect")


def test_a_hit_does_not_extend_and_another_key_is_another_effect():
    """A hit leaves the expiry where it was, and a new token commits again."""
    at = 0
    with EffectLedger(60, lambda: at) as ledger:
        ledger.apply("uncertain", "one")
        at = 59
        assert ledger.apply("uncertain", "one") == "hit"
        assert ledger.apply("uncertain", "two") == "effect"
        at = 60
        assert ledger.apply("uncertain", "one") == "effect"
