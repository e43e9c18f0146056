"""The page's application: one document, its assets, one computed run per request, and its headers."""

import json
import re
from html.parser import HTMLParser

import httpx
import pytest

from craig_mq.review import Params, caption, export, simulate
from craig_mq.review.export import run_record
from craig_mq.review.page.app import review_app
from craig_mq.review.page.document import OFFLINE_SCRIPTS, SCRIPTS, STYLE, asset, data_block, served_page
from craig_mq.review.page.guard import HEADERS, Guard, loopback_hosts

PORT = 8659
LABELS = [
    "Next event",
    "Play",
    "Restart",
    "Time",
    "Speed",
    "Operator action",
    "Operator wait",
    "Repair before redrive",
    "Deduplicate committed intent keys",
    "Export queue JSON",
    "Capture baseline",
    "Clear baseline",
    "Export notes",
    "Expand experiment",
    "Current snapshot",
    "Recent transitions",
]


@pytest.fixture
def client():
    """A client of the guarded application, in process."""
    transport = httpx.ASGITransport(app=Guard(review_app(), loopback_hosts(PORT)))
    return httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}")


async def test_a_run_is_the_models(client):
    """The answer holds the export's object, every caption and every transition in words."""
    answer = await client.get("/api/run", params={"n": "3", "id": "new", "i": "4"})
    run = simulate(Params(max_receives=3, identity="new"))
    body = answer.json()
    assert answer.status_code == 200
    assert body["run"] == json.loads(export(run)) == json.loads(json.dumps(run_record(run)))
    assert body["captions"] == [caption(run, i) for i in range(len(run.events) + 1)]
    assert len(body["transitions"]) == len(run.events)
    assert body["step"] == 4


@pytest.mark.parametrize(
    ("query", "field"),
    [("n=7", "max_receives"), ("d=yes", "dedup"), ("i=99", "i"), ("r=%FF", "retry_interval")],
)
async def test_a_bad_query_is_unprocessable(client, query, field):
    """A bad value is answered 422 with its field, its bounds and one sentence."""
    answer = await client.get(f"/api/run?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    assert field in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/", "/api/run", "/api/run?n=9", "/assets/review.css", "/assets/nothing", "/nothing"]
)
async def test_every_answer_carries_the_headers(client, path):
    """Every answer carries the policy and no CORS header, even when an Origin asks for one."""
    answer = await client.get(path, headers={"Origin": "https://evil.example"})
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
async def test_only_reading_is_allowed(client, method):
    """Every method but GET and HEAD is answered 405 with what is allowed."""
    answer = await client.request(method, "/api/run")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "name", ["page.html.jinja", "..%2Fapp.py", "../app.py", "%2e%2e/app.py", "", "offline.js"]
)
async def test_only_the_pages_assets_are_served(client, name):
    """Nothing but the listed assets is served, whatever the path looks like."""
    assert (await client.get(f"/assets/{name}")).status_code == 404


@pytest.mark.parametrize("name", [STYLE, *SCRIPTS])
async def test_an_asset_has_its_type(client, name):
    """Each asset is served with the type its name says."""
    answer = await client.get(f"/assets/{name}")
    assert answer.text == asset(name)
    assert answer.headers["Content-Type"].startswith("text/css" if name == STYLE else "text/javascript")


async def test_a_websocket_is_closed():
    """A websocket handshake is closed before it opens."""
    sent = []

    async def send(message):
        sent.append(message)

    await Guard(review_app(), loopback_hosts(PORT))({"type": "websocket"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


class _Inline(HTMLParser):
    """Collects event handlers, styles and external addresses a strict policy would refuse."""

    def __init__(self):
        super().__init__()
        self.refused = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name.startswith("on") or name == "style" or (name in {"src", "href"} and "//" in value):
                self.refused.append((tag, name, value))

    def handle_data(self, data):
        self.text += data


def test_the_document_keeps_to_its_policy():
    """The served document has no inline handler, style or foreign address, and every stated label."""
    parser = _Inline()
    parser.feed(served_page())
    assert parser.refused == []
    scripts = "".join(asset(name) for name in SCRIPTS)
    for label in [*LABELS, "Pause", "Replace baseline", "Exit full screen"]:
        assert label in parser.text + scripts, label


def test_no_rule_of_the_model_is_in_a_script():
    """No script names a message or a reason: what happens to whom is decided in Python alone."""
    for name in {*SCRIPTS, *OFFLINE_SCRIPTS}:
        code = re.sub(r"//.*", "", asset(name))
        for word in (
            "healthy",
            "transient",
            "poison",
            "uncertain",
            "outage",
            "schema",
            "ack-lost",
            "drained",
        ):
            assert word not in code, (name, word)


def test_a_data_block_cannot_end_its_element():
    """JSON written into the document can't close its own script element."""
    assert "</script>" not in data_block({"a": "</script><script>"})
    assert json.loads(data_block({"a": "</script>"})) == {"a": "</script>"}
