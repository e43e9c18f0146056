"""All checks of one subscription, in order."""

from __future__ import annotations

from functools import partial

import attrs
import trio

from craig_mq.core.config import PARKING_SUFFIX, QUARANTINE_SUFFIX
from craig_mq.operator.connecting import connected
from craig_mq.operator.doctor.findings import Finding, Level
from craig_mq.operator.doctor.management import ManagementApi, examine
from craig_mq.operator.doctor.over_amqp import ALWAYS_UNKNOWN, UNTESTABLE, AmqpChecks
from craig_mq.operator.doctor.probe import probe
from craig_mq.operator.errors import OperatorError
from craig_mq.transport.broker import Broker
from craig_mq.transport.errors import ConnectError


@attrs.define(frozen=True, slots=True)
class Examination:
    """What to examine. ``probe`` publishes one empty message that nothing should route."""

    queue: str
    probe: bool = True
    management: ManagementApi | None = None

    async def run(self, broker: Broker) -> list[Finding]:
        """Examine; a refused connection is a finding. Raises TransportError where one is lost midway."""
        began = trio.current_time()
        try:
            found = await self._over_amqp(broker)
        except ConnectError as error:
            await trio.lowlevel.checkpoint()
            todo = "check that the broker runs, and the URL's host, port, user and virtual host"
            return [Finding("connection", broker.display_url, Level.FAIL, str(error), todo)]
        words = f"opened and examined in {trio.current_time() - began:.1f} s"
        return [
            Finding("connection", broker.display_url, Level.OK, words),
            *found,
            *await self._over_management(),
            *ALWAYS_UNKNOWN,
        ]

    async def _over_amqp(self, broker: Broker) -> list[Finding]:
        parking, quarantine = self.queue + PARKING_SUFFIX, self.queue + QUARANTINE_SUFFIX
        async with connected(broker, "doctor") as connection:
            checks = AmqpChecks(connection, self.queue, parking, quarantine)
            found = await checks.topology()
            if self.probe and not any(one.level is Level.FAIL and one.check == "topology" for one in found):
                found += await probe(connection)
            if connection.blocked is None:
                await connection.aclose()
        return found

    async def _over_management(self) -> list[Finding]:
        if self.management is None:
            await trio.lowlevel.checkpoint()
            return list(UNTESTABLE)
        names = (self.queue, self.queue + PARKING_SUFFIX, self.queue + QUARANTINE_SUFFIX)
        try:
            return await trio.to_thread.run_sync(partial(examine, self.management, names))
        except OperatorError as error:
            await trio.lowlevel.checkpoint()
            return [Finding("management API", "broker", Level.FAIL, str(error), "check its URL and user")]
