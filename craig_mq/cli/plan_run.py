"""Carrying out a plan: the word it needs, the run until a signal, the progress and the account."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import click

from craig_mq.cli.audit_view import print_json
from craig_mq.cli.failures import FAILURE, USAGE, Refusal, plain_errors
from craig_mq.cli.quarantine_view import print_plan
from craig_mq.cli.target import Target, run_until_signal
from craig_mq.operator.account import Account
from craig_mq.operator.journal import open_journal
from craig_mq.operator.plan import Plan
from craig_mq.operator.redrive import RedriveOptions, redrive_plan
from craig_mq.operator.sender import Prepare, next_round
from craig_mq.operator.verdict import Verdict
from craig_mq.transport.broker import Broker
from supervisors.shutdown import Shutdown

plan_path = click.Path(dir_okay=False, path_type=Path)


def who() -> str:
    """Who acts: the login name at this host, as far as the system knows them."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def tell_plan(plan: Plan, digest: str, path: Path, *, as_json: bool) -> None:
    """Print the plan in numbers."""
    document: dict[str, Any] = {
        "plan": str(path),
        "sha256": digest,
        "complete": plan.complete,
        **plan.counts(),
    }
    if as_json:
        print_json(document)
    else:
        print_plan(document)
        _tell_unticked(plan)


def _tell_unticked(plan: Plan) -> None:
    unticked = sum(one.verdict == Verdict.MAY_DUPLICATE.value and not one.selected for one in plan.entries)
    if unticked:
        click.echo(
            f"not selected: {unticked} that may duplicate; plan --allow-duplicates selects them", err=True
        )


def require_word(plan: Plan, yes: int, reason: str | None) -> None:
    """Refuse unless the operator said how many, and why."""
    if yes != len(plan.selected):
        raise Refusal(f"the plan selects {len(plan.selected)} messages, not {yes}: nothing was done", USAGE)
    if not reason:
        raise Refusal("say why: --reason '…'", USAGE)


def carry_out(
    target: Target,
    plan: Plan,
    digest: str,
    path: Path,
    options: RedriveOptions,
    prepare: Prepare = next_round,
) -> tuple[Account, int]:
    """Carry the plan out; return its account and the exit code of a signal, else 0."""
    progress = _Progress(len(plan.selected))
    with plain_errors():
        try:
            with open_journal(path, plan_sha256=digest, now=time.time) as journal:

                async def work(broker: Broker, stop: Shutdown) -> Account:
                    return await redrive_plan(
                        broker, plan, journal, options, stop=stop, on_progress=progress, prepare=prepare
                    )

                return run_until_signal(target, work)
        except OSError as error:
            raise Refusal(f"the journal {path}: {error.strerror or error}", FAILURE) from error


class _Progress:
    """One line on a terminal's stderr: done, left, and when it will be through at this speed."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began = time.monotonic()
        self._before: int | None = None

    def __call__(self, account: Account) -> None:
        if not sys.stderr.isatty():
            return
        left = account.count("remaining")
        if self._before is None:
            self._before = left + 1
        speed = (self._before - left) / max(1e-6, time.monotonic() - self._began)
        eta = f", {left / speed:.0f} s to go" if speed > 0 else ""
        click.echo(f"\r{self._total - left} of {self._total}{eta}   ", err=True, nl=left == 0)


def report(context: click.Context, plan: Plan, account: Account, code: int, *, as_json: bool) -> None:
    """Print the account, and leave with a code other than 0 if anything planned is still where it was."""
    if as_json:
        print_json(account.document())
    else:
        click.echo(account.sentence())
    if account.stopped is not None:
        click.echo(f"stopped: {account.stopped}", err=True)
    if code or account.count("redriven") != len(plan.selected):
        context.exit(code or FAILURE)
