"""``craig-mq topology``: what must stand at the broker, as data; declared, checked, compared."""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from craig_mq.cli.failures import FAILURE, Refusal, plain_errors
from craig_mq.cli.options_first import OptionsFirst
from craig_mq.cli.target import broker_options, check_broker_url, read_broker_url
from craig_mq.cli.topology_file import DEFAULT_QUEUE, load_topologies
from craig_mq.core.topology import ExchangeSpec, Topology
from craig_mq.runtime.declare import Declarer, TopologyRefused
from craig_mq.runtime.topology_diff import Finding, Part, compare
from craig_mq.transport.broker import Connection, ConnectionOptions
from craig_mq.transport.opening import open_broker

_OPTIONS = ConnectionOptions("craig_mq topology")


@click.group(name="topology", cls=OptionsFirst)
@broker_options
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="A TOML file of [[queue]] and [[dead_letter_queue]] tables, in place of --queue.",
)
@click.option(
    "--queue", envvar="CRAIG_MQ_QUEUE", show_envvar=True, default=DEFAULT_QUEUE, show_default=True,
    help="Without --config: the dead-letter queue, without suffix.",
)  # fmt: skip
@click.pass_context
def topology_group(
    context: click.Context, url: str | None, amqp_file: Path | None, file: Path | None, queue: str
) -> None:
    """Show, declare, check or compare exchanges, queues and bindings.

    What stands with other arguments is reported field by field and never changed, replaced or worked
    around. Bindings cannot be seen over AMQP: declare makes them, check and diff leave them out.

    \b
    Examples:
      craig-mq topology --config topology.toml show
      craig-mq topology --config topology.toml diff
      craig-mq topology --config topology.toml declare
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    context.obj = (partial(load_topologies, file, queue), partial(read_broker_url, url, amqp_file))


_Given = tuple[Callable[[], list[Topology]], Callable[[], str]]


@topology_group.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show(given: _Given, *, as_json: bool) -> None:
    """Print what would be declared; asks no broker."""
    with plain_errors():
        topologies = given[0]()
    if as_json:
        click.echo(json.dumps(_document(topologies), indent=2))
        return
    for part in _parts(topologies):
        arguments = "".join(f" {name}={value}" for name, value in part.arguments.items())
        click.echo(f"{_name(part)}{_kind(part)}{arguments}")
    for binding in _bindings(topologies):
        click.echo(binding)


@topology_group.command()
@click.pass_obj
def declare(given: _Given) -> None:
    """Declare everything, unless something stands with other arguments: then nothing is declared.

    Declaring twice is harmless. Exits 1 where something differs or is refused.
    """
    with plain_errors():
        topologies = given[0]()
        findings = trio.run(_declare, given[1](), topologies)
    for finding in findings:
        click.echo(f"{_name(finding.part)}: {'declared' if finding.missing else 'stands already'}")
    for binding in _bindings(topologies):
        click.echo(f"{binding}: bound")


@topology_group.command()
@click.pass_obj
def check(given: _Given) -> None:
    """Say of each exchange and queue whether it stands as it would be declared; exits 1 if one does not."""
    findings = _compared(given)
    for finding in findings:
        click.echo(f"{'ok ' if finding.same else 'BAD'} {_name(finding.part)}: {_word(finding)}")
    _exit_unless_same(findings)


@topology_group.command()
@click.pass_obj
def diff(given: _Given) -> None:
    """Print every field that differs, ours and the broker's; prints nothing and exits 0 if none does."""
    findings = _compared(given)
    for finding in findings:
        _print_differences(finding)
    _exit_unless_same(findings)


def _compared(given: _Given) -> list[Finding]:
    with plain_errors():
        return trio.run(_with_connection, given[1](), _compare, given[0]())


async def _with_connection(url: str, work: Callable[..., Any], topologies: list[Topology]) -> Any:
    check_broker_url(url)
    async with open_broker(url) as broker, broker.connect(_OPTIONS) as connection:
        del url  # no frame below needs it
        result = await work(connection, topologies)
        await connection.aclose()
        return result


async def _compare(connection: Connection, topologies: list[Topology]) -> list[Finding]:
    found: dict[str, Finding] = {}
    for topology in topologies:
        for finding in await compare(connection, topology):
            found.setdefault(_name(finding.part), finding)
    return list(found.values())


async def _declare(url: str, topologies: list[Topology]) -> list[Finding]:
    return await _with_connection(url, _declare_all, topologies)  # type: ignore[no-any-return]


async def _declare_all(connection: Connection, topologies: list[Topology]) -> list[Finding]:
    findings = await _compare(connection, topologies)
    if any(not (finding.same or finding.missing) for finding in findings):
        for finding in findings:
            if not finding.missing:
                _print_differences(finding)
        raise Refusal("nothing was declared: what stands differs from what would be declared", FAILURE)
    for topology in topologies:
        try:
            await Declarer(connection, topology, lambda _: None).declare(repairing=False)
        except TopologyRefused as error:
            raise Refusal(f"the broker refused {error}", FAILURE) from error
    return findings


def _exit_unless_same(findings: list[Finding]) -> None:
    if not all(finding.same for finding in findings):
        click.get_current_context().exit(FAILURE)


def _print_differences(finding: Finding) -> None:
    if finding.missing or finding.refused:
        click.echo(f"{_name(finding.part)}: {_word(finding)}")
    for field, ours, theirs in finding.differences:
        click.echo(f"{_name(finding.part)}: {field}: ours {ours}, the broker's {theirs}")


def _word(finding: Finding) -> str:
    if finding.missing:
        return "missing"
    if finding.refused:
        return f"refused: {finding.refused}"
    fields = ", ".join(field for field, _, _ in finding.differences)
    return f"differs in {fields}" if fields else "stands"


def _parts(topologies: list[Topology]) -> list[Part]:
    parts: dict[str, Part] = {}
    for topology in topologies:
        for part in topology.parts:
            parts.setdefault(_name(part), part)
    return list(parts.values())


def _bindings(topologies: list[Topology]) -> list[str]:
    bindings = [binding for topology in topologies for binding in topology.bindings]
    return [f"binding {one.exchange} -> {one.queue} {one.routing_key}" for one in bindings]


def _name(part: Part) -> str:
    return f"{'exchange' if isinstance(part, ExchangeSpec) else 'queue'} {part.name}"


def _kind(part: Part) -> str:
    return f" type={part.kind}" if isinstance(part, ExchangeSpec) else ""


def _document(topologies: list[Topology]) -> dict[str, Any]:
    parts = _parts(topologies)
    return {
        "exchanges": [
            {"name": part.name, "type": part.kind, "durable": part.durable}
            for part in parts
            if isinstance(part, ExchangeSpec)
        ],
        "queues": [
            {"name": part.name, "durable": part.durable, "arguments": dict(part.arguments)}
            for part in parts
            if not isinstance(part, ExchangeSpec)
        ],
        "bindings": [
            {"exchange": one.exchange, "queue": one.queue, "routing_key": one.routing_key}
            for topology in topologies
            for one in topology.bindings
        ],
    }
