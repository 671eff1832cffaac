"""A real browser: Chromium as Debian has it, driven by Playwright. No network, and no message on its console."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.inspection.view import AttentionView
from regard.inspection.viewer import save_page
from regard.web.pages import bundled

NAMES = ("chromium", "chromium-browser", "google-chrome")
HERE = Path(__file__).parent
DRIVER = "GL Driver Message (OpenGL, Performance"
"""How a message begins that is about the browser's own drawing where there is no graphics card, not about the page."""


def why_not() -> str | None:
    """What is missing, in one line."""
    if os.environ.get("CI"):
        return "browser tests are not run in CI"
    if importlib.util.find_spec("playwright") is None:
        return "no playwright: pip install playwright"
    if not any(map(shutil.which, NAMES)):
        return f"no browser: none of {', '.join(NAMES)} is installed"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


def see_inside(page: Any) -> None:
    """Lets what is evaluated name what the viewer of a page offers: `state.row` is `regard.state.row`."""
    evaluate = page.evaluate

    def within(expression: str, *given: Any) -> Any:
        return evaluate(
            f"(given) => {{ with (window.regard ?? {{}}) {{ return seen({expression}, given); }}\n{SEEN} }}", *given
        )

    page.evaluate = within


def add_module(page: Any, name: str) -> None:
    """Lets what is evaluated name what a module of the pages exports."""
    script = bundled(name)
    last = script.rpartition("const module")[2].split(" ")[0]
    page.evaluate(f"() => {{ {script}\nObject.assign(window.regard, module{last}); }}")


SEEN = 'function seen(what, given) { return typeof what === "function" ? what(given) : what; }'


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`visit(view, "view=heads", color_scheme="dark")` opens a view's page and waits until it can be used."""
    contexts, faults = [], []

    def open_page(
        view: AttentionView | Path, place: str = "", *, ready: str = "body[data-ready]", **settings: Any
    ) -> Any:
        path = view if isinstance(view, Path) else tmp_path / "page.html"
        if not isinstance(view, Path):
            save_page(view, path)
        context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **settings)
        contexts.append(context)
        page = context.new_page()

        def refuse(route: Any) -> None:
            if route.request.url.split("#")[0] == path.as_uri():
                route.continue_()
            else:
                faults.append(f"asked for {route.request.url[:200]}")
                route.abort()

        page.route("**/*", refuse)
        page.on(
            "console",
            lambda message: DRIVER in message.text or faults.append(f"console {message.type}: {message.text}"),
        )
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(path.as_uri() + (f"#{place}" if place else ""))
        page.wait_for_selector(ready)
        see_inside(page)
        return page

    open_page.faults = faults  # type: ignore[attr-defined]  # for the one test that provokes some
    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="session")
def module() -> Callable[[Any, str], None]:
    """`module(page, "colours.js")` lets what is evaluated name what a module of the pages exports."""
    return add_module


@pytest.fixture(scope="session")
def until() -> Callable[[Any, str], None]:
    """`until(page, condition)` waits; Playwright's `wait_for_function` would need `eval`, which the page's policy forbids."""

    def wait(page: Any, condition: str) -> None:
        for _ in range(100):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(50)
        raise AssertionError(f"never came true: {condition}")

    return wait


@contextmanager
def served(**given: Any) -> Iterator[str]:
    """A server with the studio in a thread: its address. Its key is `secret`.

    Arguments:
        given: arguments of `Server`.
    """
    import uvicorn

    from regard.serving.app import create_app
    from regard.serving.server import Server
    from regard.serving.studio import CALLS

    app = create_app(Server(more=CALLS, api_keys=("secret",), **given))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """`opened(address)` opens a page of a server, in a browser that knows nothing of other pages."""
    contexts, faults = [], []

    def open_page(address: str, ready: bool = True) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        gone = "net::ERR_(INTERNET_DISCONN|CONNECTION_REFUSED)"
        refused = rf"Failed to load resource: (the server responded with a status of 40[01]|{gone})"
        # The page says these in words; of two fixtures the server ends first.
        page.on(
            "console",
            lambda message: DRIVER in message.text or re.match(refused, message.text) or faults.append(message.text),
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: request.url.startswith("http://127.0.0.1:") or faults.append(request.url))
        page.goto(address)
        if ready:
            page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def wait_for(page: Any, condition: str) -> None:
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)
