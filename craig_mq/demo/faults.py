"""The settlement faults of the embedded demo: one of each kind that ADR-059 names."""

from __future__ import annotations

from craig_mq.transport.memory import Drop, Fault, FaultPlan, LoseConnection, Nack, Return


def settlement_faults(queue: str, seed: int) -> FaultPlan:
    """A refused publish, a returned one, a lost confirm, and a connection lost under an ack."""
    parking, quarantine = f"{queue}.parking", f"{queue}.quarantine"
    return FaultPlan(
        (
            Fault("publish", Nack(), name=parking, index=None),
            Fault("confirm", Drop(), name=quarantine),
            Fault("ack", LoseConnection(), name=queue),
            Fault("publish", Return(), name=quarantine),
        ),
        seed,
    )
