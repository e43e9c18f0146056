"""Who may ask the console, and what every answer carries (console design, security checklist)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import httpx
import pytest
import trio

from craig_mq.console.page import DOCUMENT, SCRIPTS, TYPES, asset
from craig_mq.review.page.guard import HEADERS

READS = ["/api/state", "/api/service", "/api/effects", "/api/history", "/review/", "/review/api/run"]
WRITES = [
    *("/api/read", "/api/hand-back", "/api/rows", "/api/message"),
    *("/api/body", "/api/plan", "/api/redrive", "/api/stop"),
]
OWN = {"Sec-Fetch-Site": "same-origin"}
JSON = b"application/json"
ORIGIN = "http://127.0.0.1:8660"


def check_refused(answer: httpx.Response, status: int) -> None:
    """Check a refusal: its status, a reason, and no header that lets another site read it."""
    assert answer.status_code == status, answer.text
    assert not [name for name in answer.headers if name.startswith("access-control")]
    for name, value in HEADERS.items():
        assert answer.headers[name] == value


@pytest.mark.parametrize("path", READS)
async def test_nothing_is_read_without_the_token(console, autojump_clock, path) -> None:
    """Every address with data is 401 without the session cookie, and with another one."""
    async with console() as client:
        check_refused(await client.http.get(path), 401)
        client.http.cookies.set("craig_mq_console_8660", "x" * 43)
        check_refused(await client.http.get(path), 401)
        await client.open()
        assert (await client.http.get(path)).status_code == 200


@pytest.mark.parametrize("path", WRITES)
async def test_nothing_is_done_without_the_token(ward, console, autojump_clock, path) -> None:
    """Every act is 401 without the session cookie, and leaves the queue alone."""
    bodies = ward.fill(ward.capture())
    async with console(allow_redrive=True) as client:
        check_refused(await client.http.post(path, json={}, headers=OWN), 401)
        assert ward.quarantined == bodies


async def test_the_session_needs_the_very_token(console, autojump_clock) -> None:
    """Only the printed token opens a session, and its cookie is for this port and this site alone."""
    async with console() as client:
        for wrong in ("", "x", client.token[:-1], client.token + "x", "ü" * 43):
            answer = await client.http.post("/api/session", json={"token": wrong}, headers=OWN)
            assert answer.status_code in {403, 422}
            assert "set-cookie" not in answer.headers
        answer = await client.http.post("/api/session", json={"token": client.token}, headers=OWN)
        cookie = answer.headers["set-cookie"]
        assert re.match(r"craig_mq_console_8660=[\w-]{43};", cookie)
        for attribute in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert attribute in cookie
        assert client.token not in cookie


@pytest.mark.parametrize("path", ["/", "/assets/console.js", "/api/state", "/api/nothing"])
@pytest.mark.parametrize(
    "host", ["evil.example:8660", "127.0.0.1:9", "127.0.0.1", "127.0.0.1.evil.example:8660"]
)
async def test_a_foreign_host_is_misdirected(console, autojump_clock, path, host) -> None:
    """DNS rebinding: a request under any other Host than our loopback names and port is 421."""
    async with console() as client:
        await client.open()
        check_refused(await client.http.get(path, headers={"Host": host}), 421)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": ORIGIN}, 200),
        ({"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9"}, 403),
        ({"Origin": "https://127.0.0.1:8660"}, 403),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_acts_come_from_our_own_page(console, autojump_clock, headers, status) -> None:
    """A POST is taken only where fetch metadata says same-origin or, without it, Origin is ours."""
    async with console() as client:
        await client.open()
        answer = await client.http.post("/api/hand-back", json={}, headers=headers)
        assert answer.status_code == status


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
async def test_another_site_reads_nothing(console, autojump_clock, headers) -> None:
    """A GET with data that another site began is 403, whatever cookie came along."""
    async with console() as client:
        await client.open()
        check_refused(await client.http.get("/api/state", headers=headers), 403)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
async def test_acts_are_json(console, autojump_clock, kind) -> None:
    """A POST of any other type is 415: only JSON forces a browser to ask first."""
    headers = {**OWN, **({} if kind is None else {"Content-Type": kind})}
    async with console() as client:
        await client.open()
        check_refused(await client.http.post("/api/hand-back", content=b"{}", headers=headers), 415)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_no_other_method(console, autojump_clock, method) -> None:
    """Any method but GET, HEAD and POST is 405."""
    async with console() as client:
        await client.open()
        check_refused(await client.http.request(method, "/api/state", headers=OWN), 405)


async def streamed(app, receive):
    """POST a body piece by piece to the session's address; return the answer's status and headers."""
    sent = []

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8660"), (b"sec-fetch-site", b"same-origin"), (b"content-type", JSON)]
    scope = {"type": "http", "method": "POST", "path": "/api/session", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


async def test_requests_are_small(console, autojump_clock) -> None:
    """A body over 64 KiB is 413 before it has all come, and headers over 16 KiB are 431."""
    pieces = 0

    async def endless():
        nonlocal pieces
        pieces += 1
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": b" " * 1024, "more_body": True}

    async with console() as client:
        status, headers = await streamed(client.app, endless)
        assert (status, pieces, headers[b"cache-control"]) == (413, 65, b"no-store")
        check_refused(await client.http.get("/api/state", headers={"X": "x" * 17_000}), 431)


async def test_a_slow_or_broken_body_is_given_up(console, autojump_clock) -> None:
    """A request whose body does not come within ten seconds is 408; one that ends early is 400."""

    async def gone():
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    async with console() as client:
        began = trio.current_time()
        assert (await streamed(client.app, trio.sleep_forever))[0] == 408
        assert trio.current_time() - began == pytest.approx(10, abs=0.5)
        assert (await streamed(client.app, gone))[0] == 400


async def test_a_websocket_is_closed(console, autojump_clock) -> None:
    """A websocket handshake is closed before it opens."""
    sent = []

    async def send(message):
        sent.append(message)

    async with console() as client:
        await client.app({"type": "websocket"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_header_given_twice_opens_nothing(console, autojump_clock) -> None:
    """Two Origins, or two cookies headers, are nobody's."""
    async with console() as client:
        twice = [("Origin", ORIGIN), ("Origin", ORIGIN), ("Content-Type", "application/json")]
        assert (await client.http.post("/api/session", content=b"{}", headers=twice)).status_code == 403
        client.http.cookies.clear()
        cookies = [("Cookie", "craig_mq_console_8660=x"), ("Cookie", "craig_mq_console_8660=y")]
        assert (await client.http.get("/api/state", headers=cookies)).status_code == 401


@pytest.mark.parametrize("path", ["/", "/assets/console.css", "/assets/nothing", "/nothing", "/api/state"])
async def test_every_answer_carries_the_headers(console, autojump_clock, path) -> None:
    """Every answer carries the policy, is not stored, and allows no other origin."""
    async with console() as client:
        await client.open()
        answer = await client.http.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("name", ["../desk.py", "..%2Fdesk.py", "console.html", "page.html.jinja", ""])
async def test_only_the_listed_assets(console, autojump_clock, name) -> None:
    """Nothing but the listed assets is served, whatever the path looks like."""
    async with console() as client:
        await client.open()
        assert (await client.http.get(f"/assets/{name}")).status_code in {401, 404}


@pytest.mark.parametrize("name", list(TYPES))
async def test_the_assets_need_no_session(console, autojump_clock, name) -> None:
    """The page and its assets hold nothing, so they come before the token is exchanged."""
    async with console() as client:
        answer = await client.http.get(f"/assets/{name}")
        assert (answer.status_code, answer.text) == (200, asset(name))
        assert answer.headers["Content-Type"].startswith(TYPES[name])


async def test_no_credential_is_shown(console, tmp_path, autojump_clock) -> None:
    """No answer holds the ledger's URL, the token or the session."""
    async with console(audit_url="postgresql://u:hunter2@nowhere.invalid:1/x") as client:
        await client.open()
        for path in ("/", "/api/state", "/api/service"):
            answer = await client.http.get(path)
            assert "hunter2" not in answer.text
            assert client.token not in answer.text
        assert "hunter2" not in repr(client.desk.settings)


class _Inline(HTMLParser):
    """Collects what a strict policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[tuple[str, str]] = []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name.startswith("on") or name == "style" or (name in {"src", "href"} and "//" in value):
                self.refused.append((tag, name))


def test_the_document_keeps_to_its_policy() -> None:
    """The page has no inline handler, style or foreign address, and its scripts write no markup."""
    parser = _Inline()
    parser.feed(asset(DOCUMENT))
    assert parser.refused == []
    assert re.findall(r'src="assets/([\w.]+)"', asset(DOCUMENT)) == list(SCRIPTS)
    for name in SCRIPTS:
        for danger in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert danger not in asset(name), (name, danger)
        assert "http://" not in asset(name).replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in asset(name)
