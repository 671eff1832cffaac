"""The same modules on a server: fetched one by one, with data that are fetched too, under a policy of its own."""

from __future__ import annotations

import base64
import html
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

import numpy as np
import pytest

from regard.inspection.view import AttentionView
from regard.inspection.viewer import html_page
from regard.web import page

MIME = {"js": "text/javascript", "css": "text/css", "html": "text/html", "data": "application/json"}
STUDIO = """import { fetchedSource } from "/static/fetched.js";
import { mount } from "/static/viewer/viewer.js";

window.mounted = mount(document.body, fetchedSource("/view"));
window.mounted.then((viewer) => Object.assign(window, { regard: viewer }));
"""


class Handler(BaseHTTPRequestHandler):
    def __init__(self, answers: dict[str, bytes], *given: Any) -> None:
        self.answers = answers
        super().__init__(*given)

    def do_GET(self) -> None:
        if self.path.startswith("/static/"):
            body = resources.files("regard.web").joinpath(self.path.removeprefix("/")).read_bytes()
        else:
            body = self.answers.get(self.path, b"")
        known = bool(body)
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", MIME.get(self.path.rpartition(".")[2].rpartition("/")[2], "text/html"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    weights = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3))
    tokens = ["the", "cat", "sat"]
    offline = html_page(AttentionView.of(weights, tokens, tokens, title="served"))
    packed = re.findall(r'id="weights-\d+">([^<]*)<', offline)
    data = re.findall(r'id="data">([^<]*)<', offline)[0]
    parts = {"title": "served", "note": "", "footer": "", "weights": []}
    shell = page("viewer", parts, styles=("viewer.css",), served="/static")
    answers = {
        "/": shell.replace("/static/pages/viewer.js", "/studio.js").encode(),
        "/studio.js": STUDIO.encode(),
        "/view/data": data.encode(),
        **{f"/view/weights/{i}": base64.b64decode(html.unescape(text)) for i, text in enumerate(packed)},
        "/favicon.ico": b" ",
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, answers))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_modules_are_served_as_they_are_and_a_viewer_ends(browser, address, until):
    context = browser.new_context()
    seen = context.new_page()
    faults: list[str] = []
    seen.on("console", lambda message: faults.append(message.text))
    seen.on("pageerror", lambda error: faults.append(str(error)))
    seen.goto(address)
    seen.wait_for_selector("body[data-ready]")
    assert seen.inner_text("#where").startswith("Attention")
    assert seen.locator("#strongest-body tr").count() == 3
    seen.keyboard.press("2")
    until(seen, "document.body.dataset.view === 'heads'")
    seen.evaluate("regard.unmount()")
    seen.keyboard.press("1")
    seen.wait_for_timeout(100)
    assert seen.evaluate("document.body.dataset.view") == "heads"  # nothing listens any more
    context.close()
    assert faults == []
