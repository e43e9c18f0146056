"""The command line: thin groups, each imported only when it is called.

    craig-mq demo

The program starts without bridges, servers and clients; a group brings what it needs.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

from craig_mq.cli.encoding import require_utf8, write_utf8
from craig_mq.cli.extras import missing_extras
from craig_mq.cli.last_words import last_words
from craig_mq.cli.output import output_errors

_GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "audit": (
        "craig_mq.cli.audit:audit_group",
        "Look into the audit ledger, archive it, prove it unchanged.",
    ),
    "console": (
        "craig_mq.cli.console:console",
        "Serve the operator's page: quarantine, dry run, redrive, on loopback only.",
    ),
    "demo": (
        "craig_mq.cli.demo:demo",
        "Run the main job on a mix of failures and account for every message.",
    ),
    "doctor": ("craig_mq.cli.doctor:doctor", "Check what would break the promises, with what to do."),
    "run": ("craig_mq.cli.run:run", "Record the dead letters of a queue in the audit ledger."),
    "parking": (
        "craig_mq.cli.parking:parking_group",
        "See what waits in parking and when it is due; release it early.",
    ),
    "quarantine": (
        "craig_mq.cli.quarantine:quarantine_group",
        "See what lies in quarantine, plan, redrive exactly that plan, drain the rest to files.",
    ),
    "topology": (
        "craig_mq.cli.topology:topology_group",
        "Show, declare, check or compare exchanges, queues and bindings.",
    ),
    "review": (
        "craig_mq.cli.review:review_group",
        "The dead-letter review: quarantine, redrive and committed effects.",
    ),
    "status": ("craig_mq.cli.status:status", "Look at a running service, or at the depths of its queues."),
}


class _LazyGroup(click.Group):
    """A group whose subgroups are modules, imported when invoked; its output is written, or it says so."""

    def main(self, *args: Any, **extra: Any) -> Any:
        with output_errors():
            return super().main(*args, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        write_utf8()
        require_utf8(args)
        with last_words():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with last_words(), missing_extras():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_GROUPS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _GROUPS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _GROUPS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in sorted(_GROUPS.items())])


@click.group(cls=_LazyGroup)
@click.version_option(package_name="craig-mq")
def main() -> None:
    """Settle RabbitMQ dead letters without losing one."""
