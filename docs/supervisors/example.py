"""A supervised service without a broker: a counter task, and two pollers that feed it; one is flaky."""

import trio

from supervisors import Backoff, Body, ChildContext, ChildSpec, Strategy, Supervisor, SupervisorSpec, render


async def main() -> dict[str, int]:
    totals: dict[str, int] = {}
    send, receive = trio.open_memory_channel[str](10)

    async def counter(ctx: ChildContext) -> None:
        ctx.started()
        async for name in receive:
            totals[name] = totals.get(name, 0) + 1

    def poller(name: str, fails_at: int = 0) -> Body:
        async def poll(ctx: ChildContext) -> None:
            ctx.started()
            for round_number in range(1, 1_000):
                if round_number == fails_at and ctx.generation == 1:
                    raise ConnectionError("the sensor went away")
                await send.send(name)
                with trio.move_on_after(1):
                    await ctx.shutdown.wait()
                    return

        return poll

    children = (
        ChildSpec("counter", counter, significant=True, drain_timeout_s=1),
        ChildSpec("steady", poller("steady")),
        ChildSpec("flaky", poller("flaky", fails_at=3), backoff=Backoff(base_s=0.5)),
    )
    service = Supervisor(SupervisorSpec("service", children, Strategy.REST_FOR_ONE))
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(9.75)
        print(render(service.snapshot()))  # noqa: T201 - it is an example
        service.shutdown("that was enough")
    return totals


if __name__ == "__main__":
    trio.run(main)
