"""A real browser: Chromium as Debian has it, driven by Playwright. No network, and no message on its console."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.inspection.view import AttentionView
from regard.inspection.viewer import save_page

NAMES = ("chromium", "chromium-browser", "google-chrome")
HERE = Path(__file__).parent


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
        page.on("console", lambda message: faults.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(path.as_uri() + (f"#{place}" if place else ""))
        page.wait_for_selector(ready)
        return page

    open_page.faults = faults  # type: ignore[attr-defined]  # for the one test that provokes some
    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


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
