"""Runs a server: its socket, its engine, its web application, and its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware

from regard.errors import InputError
from regard.serving.app import ACCESS, create_app
from regard.serving.description import Call
from regard.serving.link import EngineLink
from regard.serving.messages import EngineOptions, Loading
from regard.serving.responses import READ_SECONDS
from regard.serving.server import LOOPBACK, Limits, Server

WRITABLE = re.compile(r"[!-~]+")
"""An API key: printable ASCII characters without spaces."""

ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://([a-z0-9._~-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
"""An origin as browsers send it: a scheme, a name, and a port where it is not the default one; or `*` for all."""

UNREAD_SECONDS = 60
"""Seconds after which a connection is closed whose client does not acknowledge what was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WebOptions:
    """Where a server listens, and who may call it.

    Arguments:
        host, port: of its socket; port 0 for any free one.
        api_keys: clients must send one of them; required where other machines can reach the server.
        origins: web pages of these origins may call it (CORS); `*` for all.
        certificate, private_key: files, for TLS.
        limits: of requests.
        drain_seconds: that requests under way have to finish after SIGTERM.
        studio: whether the studio is served too.
        runs: folders of runs that have no model yet, by name; the studio shows their training like that of served models.
        access_log: whether each request is logged to standard error as a line of JSON, without its texts.

    Raises:
        InputError: for a host that other machines can reach without a key, a key that HTTP cannot send, a wrong origin, and a
            certificate without its private key.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    private_key: Path | None = None
    limits: Limits = field(default_factory=Limits)
    drain_seconds: int = 30
    access_log: bool = True
    studio: bool = False
    runs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not self.api_keys:
            raise InputError(
                f"host {self.host}: others than this machine can reach it, so an API key is needed; set REGARD_API_KEY, give "
                "--api-key-file, or listen on 127.0.0.1"
            )
        if not all(self.api_keys):
            raise InputError("an API key is empty; give a long random one, such as the output of: openssl rand -hex 32")
        if not all(map(WRITABLE.fullmatch, self.api_keys)):
            raise InputError(
                "an API key has characters that an HTTP header cannot hold; use printable ASCII without spaces"
            )
        for origin in self.origins:
            usual = re.fullmatch(r"(http://.*:80|https://.*:443)", origin)
            if usual or not ORIGIN.fullmatch(origin):
                raise InputError(
                    f"--allow-origin {origin[:100]}: is no origin; give it as browsers send it, such as https://example.org or "
                    "http://localhost:3000: a scheme, a name in lower case, a port only where it is not the default one, "
                    "and no path; or * for all"
                )
        if (self.certificate is None) != (self.private_key is None):
            raise InputError("a certificate and its private key belong together; give both")
        for path in (self.certificate, self.private_key):
            if path is not None and not path.is_file():
                raise InputError(f"{path}: no such file")


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that reports when it listens, and ends the application's requests when it shuts down.

    Arguments:
        config: of uvicorn.
        server: the application's state.
        started: called when it listens.
        drain_seconds: after which requests still under way are ended.
    """

    def __init__(
        self, config: uvicorn.Config, server: Server, started: Callable[[], None], drain_seconds: float
    ) -> None:
        super().__init__(config)
        self.server = server
        self.started_call = started
        self.drain_seconds = drain_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        tell_systemd("READY=1")
        self.started_call()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for requests under way, for `drain_seconds` at most."""
        self.server.bodies.cut()
        patience = asyncio.get_running_loop().call_later(self.drain_seconds, self.server.deadlines.cut)
        try:
            await super().shutdown(sockets)
        finally:
            patience.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """From now on new requests are refused; a second signal ends those under way at once."""
        self.force_exit = self.should_exit
        if self.force_exit:
            self.server.link.patience = 0.0
        self.server.closing = self.server.link.closing = True
        super().handle_exit(sig, frame)


def serve(
    options: EngineOptions,
    web: WebOptions,
    *,
    listener: socket.socket | None = None,
    progress: Callable[[Loading], None] = lambda loading: None,
    started: Callable[[str, Sequence[str]], None] = lambda url, names: None,
) -> None:
    """Serve models until SIGINT or SIGTERM.

    Arguments:
        options: of the engine.
        web: of the web application.
        listener: a socket of `listening`; None to open it before the models are loaded.
        progress: called before each model is loaded, also when the engine is restarted.
        started: called when the server listens, with its URL and the names of the models.

    Raises:
        InputError: for a model that cannot be loaded, and for an address that cannot be listened on.
    """
    with contextlib.nullcontext(listener) if listener is not None else listening(web) as taken:
        try:
            asyncio.run(_serve(options, web, taken, progress, started))
        except _Ended as ended:  # raised again with the default handler
            signal.raise_signal(ended.number)


def application(
    options: EngineOptions, web: WebOptions | None = None, *, progress: Callable[[Loading], None] = lambda loading: None
) -> Starlette:
    """The server as an ASGI application, to be run by uvicorn, hypercorn, Ray Serve or another ASGI server.

    Its lifespan starts the engine, in a separate process, and ends it, so the ASGI server must run the lifespan. Requests are
    logged to the logger `regard.access`. It is meant for one process: each worker of a server with several has its own engine.

    Arguments:
        options: of the engine.
        web: who may call it, and limits. `host` states who can reach the ASGI server; the default 127.0.0.1 means this machine
            alone. The ASGI server itself chooses where to listen, the certificate and the time to drain.
        progress: called before each model is loaded.

    Raises:
        InputError: in the lifespan, for a model that cannot be loaded.

    >>> application(EngineOptions(folders={"writer": "runs/gpt"})).state.server.loopback
    True
    """
    web = WebOptions() if web is None else web
    server = Server(
        link=EngineLink(options, progress),
        limits=web.limits,
        api_keys=web.api_keys,
        origins=web.origins,
        loopback=web.host in LOOPBACK and not web.api_keys,
        more=_studio() if web.studio else (),
        runs={**options.folders, **web.runs},
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await server.link.start()
            yield
        finally:
            server.closing = True
            await server.link.close()

    app = create_app(server, lifespan)
    if web.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(web.origins), allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def _studio() -> tuple[Call, ...]:
    """The studio's routes, imported only with the studio, since they import PyTorch into the web process."""
    from regard.serving.studio import CALLS

    return CALLS


async def _serve(
    options: EngineOptions,
    web: WebOptions,
    listener: socket.socket,
    progress: Callable[[Loading], None],
    started: Callable[[str, Sequence[str]], None],
) -> None:
    app = application(options, web, progress=progress)
    server: Server = app.state.server
    async with contextlib.AsyncExitStack() as running:
        with _ended_by_sigterm():
            await running.enter_async_context(app.router.lifespan_context(app))
        if web.access_log:
            _log_to(sys.stderr)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",  # already running: errors in models are reported before the server listens
            timeout_graceful_shutdown=web.drain_seconds + READ_SECONDS + 1,
            ssl_certfile=web.certificate,
            ssl_keyfile=web.private_key,
        )
        logging.getLogger("uvicorn.error").addFilter(_not_stream_end)
        scheme = "http" if web.certificate is None else "https"
        host = f"[{web.host}]" if ":" in web.host else web.host
        url = f"{scheme}://{host}:{listener.getsockname()[1]}"
        web_server = _Uvicorn(config, server, lambda: started(url, list(server.link.models)), web.drain_seconds)
        await web_server.serve(sockets=[listener])


class _Ended(Exception):
    """A signal arrived before the server had started.

    Arguments:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """While models are loaded, SIGTERM ends the wait and with it the engine; afterwards the previous handler is restored.

    Raises:
        _Ended: where the signal arrived.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    came: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        came.append(number)
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    if threading.current_thread() is not threading.main_thread():  # other threads cannot set signal handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if came:
            raise _Ended(came[0]) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _not_stream_end(record: logging.LogRecord) -> bool:
    """Filter out uvicorn's line about a stream that ended early: the access log has its own line for it."""
    return "returned without completing response" not in record.getMessage()


def listening(web: WebOptions) -> socket.socket:
    """A bound socket, opened before models are loaded, so that a wrong address is reported at once.

    Arguments:
        web: its host and port are used.

    Raises:
        InputError: for an address that cannot be bound.
    """
    host, port = web.host, web.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":  # connections inherit it; without it, one that the client does not read is never closed
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"{host}:{port} cannot be listened on: {error}; choose another --port") from error
    return listener


def tell_systemd(state: str) -> None:
    """Report the state of this process to systemd, where systemd started it with `Type=notify`; else do nothing.

    Arguments:
        state: such as `READY=1`.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            channel.sendall(state.encode())


def _log_to(stream: object) -> None:
    handler = logging.StreamHandler(stream)  # type: ignore[arg-type]
    handler.setFormatter(logging.Formatter("%(message)s"))
    ACCESS.handlers[:] = [handler]
    ACCESS.setLevel(logging.INFO)
    ACCESS.propagate = False
