"""The switch that turns events into OpenTelemetry spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from craig_mq.cli.extras import missing_extras
from craig_mq.cli.failures import USAGE, Refusal

if TYPE_CHECKING:
    from craig_mq.observe.spans import Spans

spans_option = click.option(
    "--spans",
    is_flag=True,
    envvar="CRAIG_MQ_SPANS",
    show_envvar=True,
    help="Make OpenTelemetry spans; needs the extra otel and an SDK, such as opentelemetry-instrument's.",
)


def span_observer() -> Spans:
    """The observer that ``--spans`` asks for, on the process's tracer provider.

    Raises ClickException where the extra is not installed, and Refusal where no SDK was set up: the spans
    would go nowhere.
    """
    with missing_extras():
        from opentelemetry import trace

        from craig_mq.observe.spans import Spans
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        raise Refusal(
            "--spans: no OpenTelemetry SDK is set up; start with opentelemetry-instrument craig-mq …",
            USAGE,
        )
    return Spans()
