"""The page's addresses: limits on what is read, keys, one line for each mistake, and the guard before gradio."""

import asyncio
import json

import pytest

pytest.importorskip("starlette", reason="needs the extra demo (pip install gradio)")

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from geco.demo import routes
from geco.demo.settings import AppSettings


class Client:
    """Sends requests to an application without a server."""

    def __init__(self, app):
        self.app = app

    def send(self, method, path, *, body=b"", headers=None, chunk=1 << 20):
        sent = [body[i : i + chunk] for i in range(0, len(body), chunk)] or [b""]
        answers, read = [], []
        named = {"host": "127.0.0.1:7860", **(headers or {})}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "server": ("127.0.0.1", 7860),
            "client": ("127.0.0.1", 1),
            "headers": [(key.lower().encode(), value.encode("latin1")) for key, value in named.items()],
        }

        async def receive():
            read.append(len(sent[0]))
            part = sent.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(sent)}

        async def send(message):
            answers.append(message)

        asyncio.run(self.app(scope, receive, send))
        content = b"".join(message.get("body", b"") for message in answers[1:])
        headers = {key.decode(): value.decode() for key, value in answers[0]["headers"]}
        return answers[0]["status"], headers, content, sum(read)


@pytest.fixture
def client(studio):
    reached = Route("/{anything:path}", lambda request: PlainTextResponse("gradio"), methods=["GET", "POST"])
    guard = Middleware(routes.Guard, settings=studio.settings)
    return Client(Starlette(routes=[*routes.routes(studio), reached], middleware=[guard]))


def session(client):
    _, _, content, _ = client.send("POST", "/geco/open", headers={routes.KEY: ""})
    return {routes.KEY: json.loads(content)["key"]}


def test_a_page_is_opened_used_and_closed(client, uploaded, studio):
    key = session(client)
    headers = {**key, routes.NAME: "na%C3%AFve%20cat.png", routes.SLOT: "1"}
    status, _, content, _ = client.send("POST", "/geco/upload", body=uploaded(), headers=headers)
    assert status == 200
    assert json.loads(content)["images"][0]["name"] == "naïve cat.png"
    (identity,) = studio.sessions.find(key[routes.KEY]).images
    status, about, content, _ = client.send("GET", f"/geco/image/{identity}", headers=key)
    assert (status, about["content-type"], content[:2]) == (200, "image/jpeg", b"\xff\xd8")
    status, *_ = client.send("POST", "/geco/close", body=key[routes.KEY].encode())
    assert status == 200
    status, _, content, _ = client.send("GET", f"/geco/image/{identity}", headers=key)
    assert (status, b"reload" in content) == (410, True)


def test_another_site_cannot_open_a_session(client):
    status, _, content, _ = client.send("POST", "/geco/open")
    assert (status, b"X-Geco-Session" in content) == (422, True)
    for path in ("/geco/act", "/geco/parts", "/geco/compare", "/geco/components", "/geco/label"):
        assert client.send("POST", path, body=b"{}", headers={routes.KEY: "guessed"})[0] in (410, 422)


def test_an_upload_above_the_limit_is_not_kept(client, studio):
    key = session(client)
    body = bytes(int(studio.settings.megabytes * 1e6) + 1)
    status, _, content, read = client.send("POST", "/geco/upload", body=body, headers=key)
    assert (status, b"larger than 20 MB" in content) == (422, True)
    assert read == len(body), "a browser hears why"
    endless = bytes(100_000_000)
    status, _, content, read = client.send("POST", "/geco/upload", body=endless, headers=key)
    assert (status, b"larger than 20 MB" in content) == (422, True)
    assert read < 90_000_000, "but nobody can send for ever"


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff", b"[" * 100_000, b'"x"'])
def test_what_is_no_request_is_one_line(client, body):
    status, _, content, _ = client.send("POST", "/geco/act", body=body, headers=session(client))
    assert status == 422
    assert b"a request is" in content


def test_files_of_the_page_and_no_others(client):
    for name in ("page.js", "page.css", "dom.js", "stage.js"):
        status, _, content, _ = client.send("GET", f"/geco/static/{name}")
        assert (status, len(content) > 100) == (200, True)
        assert "https://" not in content.decode(), "nothing is fetched from elsewhere"
    for name in ("routes.py", "..%2froutes.py", "nothing.js", "\0", "..", ""):
        assert client.send("GET", f"/geco/static/{name}")[2] in (b"no such file", b"gradio")
    assert client.send("GET", "/geco/static/../routes.py")[2] == b"gradio", "no address of ours"


def test_downloads_have_names_of_ours(client, studio, uploaded):
    key = session(client)
    client.send("POST", "/geco/upload", body=uploaded(), headers={**key, routes.NAME: "a%22%0d%0ab.png"})
    client.send("POST", "/geco/act", body=b'{"do": "add", "x": 3, "y": 4}', headers=key)
    status, headers, content, _ = client.send("GET", "/geco/download/csv", headers=key)
    assert (status, headers["content-disposition"]) == (200, 'attachment; filename="geco-points.csv"')
    assert b"point 1" in content
    assert client.send("GET", "/geco/download/exe", headers=key)[0] == 422


REFUSED = (
    "/gradio_api/upload",
    "/gradio_api/file=/etc/passwd",
    "/gradio_api/proxy=https://example.org",
    "/gradio_api/queue/join",
    "/gradio_api/run/predict",
    "/gradio_api/vibe-edit",
    "/monitoring",
    "/login",
    "/docs",
)


def test_the_guard_lets_through_only_what_the_page_needs(client):
    for path in ("/", "/config", "/theme.css", "/assets/index.js"):
        status, headers, content, _ = client.send("GET", path)
        assert (status, content) == (200, b"gradio")
        assert "default-src 'self'" in headers["content-security-policy"]
    for path in REFUSED:
        for method in ("GET", "POST"):
            assert client.send(method, path)[0] == 404, path


def test_only_names_of_this_machine_are_answered_unless_told(studio):
    async def inside(scope, receive, send):
        await PlainTextResponse("gradio")(scope, receive, send)

    local = Client(routes.Guard(inside, AppSettings()))
    for host, expected in (("127.0.0.1:7860", 200), ("localhost", 200), ("[::1]:80", 200), ("evil.example:7860", 404)):
        assert local.send("GET", "/", headers={"host": host})[0] == expected
    for settings in (AppSettings(host="0.0.0.0"), AppSettings(share=True)):
        assert Client(routes.Guard(inside, settings)).send("GET", "/", headers={"host": "lab.example"})[0] == 200
