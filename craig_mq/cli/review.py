"""`craig-mq review`: run the experiment on a terminal, export it, build its page or serve it."""

from pathlib import Path

import click

from craig_mq.cli.review_live import live_command
from craig_mq.cli.review_settings import RefusedParameter, review_settings
from craig_mq.review import Params, Run, caption, export, simulate, trace

_out = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write."
)


@click.group("review")
def review_group() -> None:
    """The dead-letter review: quarantine, redrive and committed effects.

    A deterministic offline experiment on application policy, not a live broker. Modeled seconds are not
    measured queue latency.
    """


@review_group.command("run")
@review_settings
@click.option("--trace", "show_trace", is_flag=True, help="Print one line per transition.")
@click.option("--json", "show_json", is_flag=True, help="Print the whole run as JSON.")
@click.option("--caption", "captioned", type=int, metavar="I", help="Print the sentence of snapshot I.")
@click.option("--step", type=int, metavar="I", help="Show snapshot I instead of the last.")
def run_command(
    params: Params, *, show_trace: bool, show_json: bool, captioned: int | None, step: int | None
) -> None:
    """Run the experiment and show its diagram, table and ledger.

    \b
    Columns:
      Key       what dedup goes by; a redrive with a new identity gives a fresh one
      Cycle     1 is the source's cycle, 2 the redrive's
      Receives  deliveries in this cycle, and in parentheses over all cycles
      Effects   committed effects of this message; more than one is a duplicate
      Hits      deliveries that dedup absorbed without an effect
      Delta     how much one commit added to the counter of effects
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    if show_trace + show_json + (captioned is not None) + (step is not None) > 1:
        raise RefusedParameter("choose one of --trace, --json, --caption and --step")
    run = simulate(params)
    try:
        if show_trace:
            click.echo("\n".join(trace(run)))
        elif show_json:
            click.echo(export(run), nl=False)
        elif captioned is not None:
            click.echo(caption(run, captioned))
        else:
            _show(run, len(run.events) if step is None else step)
    except IndexError as error:
        raise RefusedParameter(str(error)) from error


def _show(run: Run, index: int) -> None:
    from rich.console import Console

    from craig_mq.review.terminal import render

    Console().print(render(run, index))


@review_group.command("export")
@review_settings
@_out
def export_command(params: Params, out: Path) -> None:
    """Write the whole run as JSON, byte-identical for the same parameters."""
    _write(out, export(simulate(params)))


@review_group.command("html")
@_out
def html_command(out: Path) -> None:
    """Write the page as one offline file that makes no request; it offers the listed choices only."""
    from craig_mq.review.page.offline import offline_page

    _check_writable(out)
    _write(out, offline_page())


def _check_writable(out: Path) -> None:
    """Find out before ten seconds of work, and leave nothing behind."""
    existed = out.exists()
    try:
        with out.open("ab"):
            pass
        if not existed:
            out.unlink()
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror}") from error


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror}") from error
    click.echo(f"{out}: {len(text.encode()):,} bytes")


@review_group.command("serve")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8659, show_default=True, help="0 picks a free one."
)
def serve_command(port: int) -> None:
    """Serve the page on 127.0.0.1 until interrupted, in a process of its own."""
    import trio

    from craig_mq.review.page.listener import bind_loopback, serve_until_signalled

    try:
        listening = bind_loopback(port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another --port"
        ) from error
    click.echo(f"http://127.0.0.1:{listening.getsockname()[1]}/")
    trio.run(serve_until_signalled, listening)


review_group.add_command(live_command)
