"""What the management API adds: policies, versions, alarms, the broker's clock. Read-only GETs."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

import attrs

from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.operator.doctor.findings import Finding, Level
from craig_mq.operator.doctor.settings import judge_exchange, judge_queue
from craig_mq.operator.errors import OperatorError

TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
MAX_SKEW_S: Final = 5.0

_ALLOWED: Final = (
    "--management takes a URL such as http://user:password@host:15672;"
    " what a URL reserves must be percent-encoded in user and password"
)


@attrs.define(slots=True)
class ManagementApi:
    """One vhost of one management API. Blocks; the URL's password is never shown.

    ``skew_s`` is the broker host's clock minus ours, as its last answer told, to a second.
    """

    url: str = attrs.field(repr=False)
    vhost: str
    skew_s: float | None = attrs.field(default=None, init=False)

    def get(self, *path: str) -> dict[str, Any]:
        """GET ``/api/…`` with these parts, where an object is served. Raises OperatorError."""
        answer = self._answer(path)
        if not isinstance(answer, dict):
            raise OperatorError(f"what answers there is no management API: {'/'.join(path)} is no object")
        return cast("dict[str, Any]", answer)

    def get_list(self, *path: str) -> list[dict[str, Any]]:
        """GET ``/api/…`` with these parts, where a list of objects is served. Raises OperatorError."""
        answer = self._answer(path)
        if not isinstance(answer, list) or not all(
            isinstance(one, dict) for one in cast("list[object]", answer)
        ):
            raise OperatorError(f"what answers there is no management API: {'/'.join(path)} is no list")
        return cast("list[dict[str, Any]]", answer)

    def _answer(self, path: Iterable[str]) -> object:
        parts, host, port = _address(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(host, port, timeout=TIMEOUT_S)
        login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
        headers = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
        target = "/".join(["/api", *(quote(part, safe="") for part in path)])
        try:
            connection.request("GET", target, headers=headers)
            with connection.getresponse() as response:
                text = response.read(MAX_ANSWER_BYTES)
            if response.status != http.client.OK:
                raise OperatorError(f"the management API answers {response.status} to {target}")
            if date := response.getheader("Date"):
                self.skew_s = parsedate_to_datetime(date).timestamp() - time.time()
            found: object = json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise OperatorError(f"the management API at {host} can't be read: {error}") from error
        finally:
            connection.close()
        return found


def _address(url: str) -> tuple[SplitResult, str, int | None]:
    """The parts of the URL, its host and its port. Raises OperatorError, which quotes none of them."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # from None: its text quotes what a bare '/' in the password made the port
        raise OperatorError(_ALLOWED) from None
    if parts.scheme not in {"http", "https"} or not host:
        raise OperatorError(_ALLOWED)
    return parts, host, port


def examine(api: ManagementApi, queues: Iterable[str]) -> list[Finding]:
    """Everything the API tells of these queues, their exchange and the broker. Raises OperatorError."""
    overview = api.get("overview")
    found = [Finding("version", "broker", Level.OK, f"RabbitMQ {overview.get('rabbitmq_version', '?')}")]
    for name in queues:
        queue = api.get("queues", api.vhost, name)
        found += judge_queue(name, _effective(queue), quorum=queue.get("type") == "quorum")
    found.append(judge_exchange(DEAD_LETTER_EXCHANGE, _exchange_settings(api)))
    found += _alarms(api)
    found.append(_skew(api.skew_s))
    return found


def _effective(queue: Mapping[str, Any]) -> dict[str, object]:
    """Arguments and policies in one, arguments last: they win over a user policy."""
    settings: dict[str, object] = {}
    for name in ("effective_policy_definition", "operator_policy_definition"):
        definition = queue.get(name)
        if isinstance(definition, dict):  # an empty one is written as a list
            settings.update(cast("dict[str, object]", definition))
    arguments = cast("dict[str, object]", queue.get("arguments") or {})
    settings.update({key.removeprefix("x-"): value for key, value in arguments.items()})
    return settings


def _exchange_settings(api: ManagementApi) -> dict[str, object]:
    exchange = api.get("exchanges", api.vhost, DEAD_LETTER_EXCHANGE)
    settings = dict(cast("dict[str, object]", exchange.get("arguments") or {}))
    applied = exchange.get("policy")
    if applied:
        policy = api.get("policies", api.vhost, str(applied))
        settings.update(cast("dict[str, object]", policy.get("definition") or {}))
    return settings


def _alarms(api: ManagementApi) -> list[Finding]:
    found: list[Finding] = []
    for node in api.get_list("nodes"):
        raised = [name for name in ("mem_alarm", "disk_free_alarm") if node.get(name)]
        level = Level.FAIL if raised else Level.OK
        text = ", ".join(raised) or "none"
        todo = "free memory or disk at the broker" if raised else ""
        found.append(Finding("resource alarm", str(node.get("name")), level, text, todo))
    return found


def _skew(skew_s: float | None) -> Finding:
    if skew_s is None:
        return Finding("clock skew", "broker", Level.UNKNOWN, "its answers carry no date")
    level = Level.WARN if abs(skew_s) > MAX_SKEW_S else Level.OK
    todo = "synchronise the clocks: due times are wall-clock" if level is Level.WARN else ""
    return Finding("clock skew", "broker", level, f"about {skew_s:+.0f} s to this host", todo)
