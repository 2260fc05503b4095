"""The page's addresses: requests → the studio → JSON; and a guard before everything that gradio serves."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from geco.demo.sessions import ClosedError
from geco.demo.settings import AppSettings
from geco.demo.studio import BusyError, Studio
from geco.errors import GecoError, InputError

STATIC = Path(__file__).parent / "static"
SCRIPTS = {".js": "text/javascript", ".css": "text/css"}
DOWNLOADS = {
    "csv": ("geco-points.csv", "text/csv"),
    "coco": ("geco-points.json", "application/json"),
    "png": ("geco-points.png", "image/png"),
    "labels-csv": ("geco-labels.csv", "text/csv"),
    "labels-coco": ("geco-labels.json", "application/json"),
}
KEY, NAME, SLOT = "x-geco-session", "x-geco-name", "x-geco-slot"  # headers: no other site can send them without asking
JSON_BYTES = 1_000_000
READ_ON = 4  # × the limit of an upload that is read and dropped, so that a browser hears why it was refused

Handler = Callable[[Request], Awaitable[Response]]


def routes(studio: Studio) -> list[Route]:
    """Everything that the page asks of us."""

    async def scripts(request: Request) -> Response:
        files = {path.name: path for path in STATIC.iterdir() if path.suffix in SCRIPTS}
        path = files.get(request.path_params["name"])  # looked up, never joined
        if path is None:
            return PlainTextResponse("no such file", status_code=404)
        return PlainTextResponse(path.read_text("utf-8"), media_type=SCRIPTS[path.suffix])

    async def open_session(request: Request) -> Response:
        if KEY not in request.headers:
            raise InputError("a page asks for a session with the header X-Geco-Session")
        return JSONResponse(await run_in_threadpool(studio.open))

    async def close_session(request: Request) -> Response:
        studio.close((await _body(request, 1000)).decode("ascii", "replace"))  # a beacon cannot send headers
        return JSONResponse({})

    async def upload(request: Request) -> Response:
        content = await _body(request, int(studio.settings.megabytes * 1e6))
        name = unquote(request.headers.get(NAME, ""))
        slot = request.headers.get(SLOT, "")
        where = int(slot) if slot in ("0", "1", "2") else None
        return JSONResponse(await run_in_threadpool(studio.upload, _key(request), content, name, where))

    async def image(request: Request) -> Response:
        content = await run_in_threadpool(studio.jpeg, _key(request), request.path_params["identity"])
        return Response(content, media_type="image/jpeg")

    async def download(request: Request) -> Response:
        kind = request.path_params["kind"]
        content = await run_in_threadpool(studio.download, _key(request), kind)
        name, media = DOWNLOADS[kind]
        return Response(content, media_type=media, headers={"content-disposition": f'attachment; filename="{name}"'})

    def asked(answer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Handler:
        async def handle(request: Request) -> Response:
            values = _parsed(await _body(request, JSON_BYTES))
            return JSONResponse(await run_in_threadpool(answer, _key(request), values))

        return handle

    return [
        Route("/geco/static/{name}", scripts),
        Route("/geco/open", _guarded(open_session), methods=["POST"]),
        Route("/geco/close", _guarded(close_session), methods=["POST"]),
        Route("/geco/upload", _guarded(upload), methods=["POST"]),
        Route("/geco/image/{identity}", _guarded(image)),
        Route("/geco/download/{kind}", _guarded(download)),
        Route("/geco/act", _guarded(asked(studio.act)), methods=["POST"]),
        Route("/geco/compare", _guarded(asked(studio.compare)), methods=["POST"]),
        Route("/geco/components", _guarded(asked(studio.components)), methods=["POST"]),
        Route("/geco/label", _guarded(asked(studio.label)), methods=["POST"]),
        Route("/geco/parts", _guarded(asked(studio.parts)), methods=["POST"]),
    ]


def _guarded(handler: Handler) -> Handler:
    """The handler, whose errors are one line for the page."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except GecoError as error:
            code = 503 if isinstance(error, BusyError) else 410 if isinstance(error, ClosedError) else 422
            return JSONResponse({"error": str(error)}, status_code=code)

    return handle


def _key(request: Request) -> str:
    return request.headers.get(KEY, "")


async def _body(request: Request, most: int) -> bytes:
    """What a request sends, up to a limit; more is not kept."""
    chunks: list[bytes] = []
    count = 0
    async for chunk in request.stream():
        count += len(chunk)
        if count <= most:
            chunks.append(chunk)
        else:
            chunks.clear()
        if count > READ_ON * most:
            break
    if count > most:
        raise InputError(f"the file is larger than {most / 1e6:g} MB, which is the limit; save it smaller")
    return b"".join(chunks)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("a request is JSON, got something else; reload the page") from None
    if not isinstance(values, dict):
        raise InputError("a request is a JSON object, got something else; reload the page")
    return values


# --- the guard --------------------------------------------------------------------------------------------------------

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

# Of all that gradio would answer (uploads to disk, files, a proxy, an interface for programs, …), the page needs this.
OF_GRADIO = ("/assets/", "/static/", "/svelte/", "/geco/")
EXACTLY = ("/", "/theme.css", "/favicon.ico", "/config", "/manifest.json", "/robots.txt", "/gradio_api/startup-events")
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
# The browser itself refuses whatever would come from, or go to, another place.
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'self'; form-action 'self'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Guard:
    """Lets through only what the page needs, from pages of this server, and forbids the browser everything else."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], settings: AppSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        refusal = self._refusal(scope)
        if refusal is not None or scope["type"] != "http":
            return await PlainTextResponse(refusal or "not found", status_code=404)(scope, receive, send)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        return await self.app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> str | None:
        headers = {key.decode("latin1").lower(): value.decode("latin1") for key, value in scope.get("headers", ())}
        if self.settings.is_local:
            # A foreign name that points to this machine (DNS rebinding) is refused.
            name = headers.get("host", "").rsplit(":", 1)[0]
            if name not in LOCAL_NAMES:
                return "this page is for this machine only"
        path = scope.get("path", "")
        return None if path in EXACTLY or path.startswith(OF_GRADIO) else "not found"
