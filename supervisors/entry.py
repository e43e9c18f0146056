"""Two ways in: run a supervisor as a task, or as the body of another supervisor's child."""

from __future__ import annotations

from collections.abc import Awaitable

import trio

from supervisors.context import ChildContext
from supervisors.events import Observer
from supervisors.spec import Body, SupervisorSpec
from supervisors.supervisor import Supervisor


async def run_supervisor(  # noqa: ASYNC128, ASYNC114 - run() reports started
    spec: SupervisorSpec,
    *,
    observer: Observer | None = None,
    task_status: trio.TaskStatus[Supervisor] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a supervisor: ``handle = await nursery.start(run_supervisor, spec)``. See ``Supervisor.run``."""
    await Supervisor(spec, observer=observer).run(task_status=task_status)


def supervised(spec: SupervisorSpec, *, observer: Observer | None = None) -> Body:
    """A supervisor as the body of a child. The child reports started once the inner bring-up is over.

    Its path is the child's; it drains when the child is drained. Without an ``observer`` of its own it
    reports to the parent's.
    """

    def body(context: ChildContext) -> Awaitable[None]:
        inner = Supervisor(spec, observer=observer or context.observer, context=context)
        context.host(inner)
        context.shutdown.listen(inner.drain_from_parent)
        return inner.run()

    return body
