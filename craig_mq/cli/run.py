"""``craig-mq run``: the recorder service."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

import attrs
import click
import trio

from craig_mq.cli.failures import USAGE, Refusal, plain_errors
from craig_mq.cli.spans import span_observer, spans_option
from craig_mq.cli.target import broker_options, read_broker_url
from craig_mq.observe.log import LOGGER, JsonFormatter, KeyValueFormatter
from craig_mq.service.recorder import Recorder, run_recorder
from craig_mq.service.settings import Settings, load_settings
from craig_mq.transport.opening import open_broker

_DEFAULT_AUDIT = "sqlite:///audit.db"
_LOOPBACK = "127.0.0.1"


@click.command()
@broker_options
@click.option("--queue", envvar="CRAIG_MQ_QUEUE", show_envvar=True, help="The dead-letter queue to record.")
@click.option(
    "--binding-key", "binding_keys", multiple=True, help="Key to bind; repeatable.  [default: dlq.#]"
)
@click.option(
    "--audit",
    envvar="CRAIG_MQ_AUDIT_URL",
    show_envvar=True,
    help=f"The ledger: sqlite:///FILE or postgresql://….  [default: {_DEFAULT_AUDIT}]",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics, /healthz, /readyz and /status here.")
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="A TOML file: [retry], [options], [service]."
)
@click.option(
    "--alert-threshold", type=click.IntRange(min=1), help="Alert at this many of a kind within an hour."
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@spans_option
def run(
    url: str | None,
    amqp_file: Path | None,
    queue: str | None,
    binding_keys: tuple[str, ...],
    audit: str | None,
    metrics: str | None,
    file: Path | None,
    alert_threshold: int | None,
    log_format: str,
    log_level: str,
    spans: bool,
) -> None:
    """Record the dead letters of a queue in the audit ledger.

    Each message is acked only after its row is committed. While the ledger is down, messages park and
    come back; what can never be recorded is quarantined. SIGTERM or SIGINT finishes what is in flight
    and exits 0; a second signal exits at once with 128 plus its number.

    \b
    Example:
      export CRAIG_MQ_AMQP_URL=amqp://user:password@host/vhost
      craig-mq run --queue security.dlq --audit sqlite:///audit.db --metrics 127.0.0.1:9464
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    with plain_errors():
        settings = Settings() if file is None else load_settings(file)
        recorder = _recorder(
            settings,
            queue=queue,
            binding_keys=binding_keys,
            audit=audit,
            metrics=metrics,
            alert_threshold=alert_threshold,
        )
        if spans:
            recorder = attrs.evolve(recorder, observers=(span_observer(),))
        broker_url = read_broker_url(url, amqp_file)
        _log_to_stderr(log_format, log_level)
        trio.run(partial(_serve, broker_url, recorder))


async def _serve(url: str, recorder: Recorder) -> None:
    async with open_broker(url) as broker:
        del url  # no frame below needs it
        await run_recorder(broker, recorder)


def _recorder(
    settings: Settings,
    *,
    queue: str | None,
    binding_keys: tuple[str, ...],
    audit: str | None,
    metrics: str | None,
    alert_threshold: int | None,
) -> Recorder:
    service = settings.service
    name = queue or service.queue
    if name is None:
        raise Refusal(
            "which queue? Say --queue NAME, set CRAIG_MQ_QUEUE, or write queue under [service] in --config",
            USAGE,
        )
    recorder = Recorder(
        queue=name,
        audit_url=audit or service.audit or _DEFAULT_AUDIT,
        metrics=_address(metrics or service.metrics),
        alert_threshold=alert_threshold,
        config=settings.retry,
        options=settings.options,
    )
    keys = binding_keys or service.binding_keys
    return recorder if keys is None else attrs.evolve(recorder, binding_keys=tuple(keys))


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the last port
        raise Refusal(f"--metrics takes HOST:PORT, such as {_LOOPBACK}:9464, not {text!r}", USAGE)
    return host.strip("[]") or _LOOPBACK, int(port)


def _log_to_stderr(log_format: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else KeyValueFormatter())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level.upper())
