"""The account finds every message by its id, and can fail."""

import pytest

from craig_mq.demo.account import Copy, Witness, settle_account
from craig_mq.demo.mix import Home, Kind, Planned, plan_mix
from craig_mq.observe import events as ev

Q = "demo.dlq"


@pytest.fixture
def planned() -> list[Planned]:
    return plan_mix(60, seed=7, queue=Q, routing_key="dlq.demo")


def _all_home(planned: list[Planned]) -> tuple[list[Copy], dict[str, int]]:
    copies = [
        Copy("quarantine", item.publication_id, f"capture-{item.publication_id}", "permanent")
        for item in planned
        if item.home is Home.QUARANTINE
    ]
    ledger = {item.envelope_id: 1 for item in planned if item.home is Home.AUDIT}
    return copies, ledger


def test_the_mix_is_the_same_for_the_same_seed_and_has_every_kind(planned: list[Planned]) -> None:
    """A seed decides the whole mix, byte for byte; every kind of failure occurs."""
    again = plan_mix(60, seed=7, queue=Q, routing_key="dlq.demo")
    assert [item.publication.body for item in again] == [item.publication.body for item in planned]
    assert {item.kind for item in planned} == set(Kind)
    assert len({item.publication_id for item in planned}) == len(planned) == 60


def test_an_account_without_loss_names_a_home_for_every_publication(planned: list[Planned]) -> None:
    """Every publication has a home, and pairs of one token count as absorbed duplicates."""
    copies, ledger = _all_home(planned)
    account = settle_account(planned, copies, ledger, Witness())
    assert account.lost == ()
    assert all(account.homes[item.publication_id] for item in planned)
    pairs = [item for item in planned if item.kind is Kind.DUPLICATE]
    assert account.duplicates_absorbed == len(pairs) - len({item.token for item in pairs}) > 0


def test_a_dropped_confirmed_copy_and_an_early_ack_are_told_apart_by_id(planned: list[Planned]) -> None:
    """A confirmed copy that is gone and an ack with neither row nor copy are named with their ids."""
    copies, ledger = _all_home(planned)
    dropped = next(item for item in planned if item.kind is Kind.PERMANENT)
    early = next(item for item in planned if item.kind is Kind.OK)
    witness = Witness()
    witness(
        ev.Quarantined(
            Q,
            envelope_id=dropped.envelope_id,
            capture_id=f"capture-{dropped.publication_id}",
            reason="permanent",
            target=f"{Q}.quarantine",
        )
    )
    copies = [copy for copy in copies if copy.publication_id != dropped.publication_id]
    del ledger[early.envelope_id]
    account = settle_account(planned, copies, ledger, witness)
    assert {(loss.publication_id, loss.why) for loss in account.lost} == {
        (dropped.publication_id, "its confirmed copy is gone"),
        (early.publication_id, "acked without evidence"),
    }
