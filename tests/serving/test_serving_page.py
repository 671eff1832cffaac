"""Every example of docs/serving.md, run against a server."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.serving.conftest import Served

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^curl .+$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_page_is_answered(server: Served, call: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    here = call.replace("http://127.0.0.1:8000", server.url).replace(
        "curl ", "curl --silent --show-error --fail-with-body "
    )
    done = subprocess.run(here, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("# HELP") if call.endswith("/metrics") else json.loads(done.stdout)


def shape(value: object) -> object:
    """The names of an answer's fields at every depth; of lists that of the first entry. Those of top_logprobs are tokens."""
    if isinstance(value, dict):
        return {name: name == "top_logprobs" or shape(each) for name, each in value.items()}
    return [shape(each) for each in value[:1]] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize(
    ("call", "shown"), re.findall(r"^(curl [^\n]+)\n```\n(?:\n[^`\n]+\n)?\n```json\n(.*?)^```", PAGE, re.M | re.S)
)
def test_an_answer_on_the_page_has_the_fields_of_a_real_one(server: Served, call: str, shown: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    here = call.replace("http://127.0.0.1:8000", server.url) + " --silent"
    done = subprocess.run(here, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert shape(json.loads(shown)) == shape(json.loads(done.stdout))


def test_the_routes_all_have_a_call_on_the_page() -> None:
    from regard.serving.app import create_app
    from regard.serving.link import EngineLink
    from regard.serving.messages import EngineOptions
    from regard.serving.server import Server

    app = create_app(Server(link=EngineLink(EngineOptions(folders={}))))
    for route in app.routes:
        if route.path == "/pages/{name}":  # type: ignore[attr-defined]
            continue  # its address comes in an answer: a client on the page follows it
        parts = [re.escape(part) for part in re.split(r"\{[^}]*\}", route.path)]  # type: ignore[attr-defined]
        path = r"[\w-]+".join(parts)
        assert any(re.search(rf"8000{path}(\s|$)", call) for call in CALLS), path


@pytest.mark.parametrize("code", re.findall(r"^```py\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
def test_the_clients_on_the_page(server: Served, code: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace("http://127.0.0.1:8000", server.url), {})
    assert len(printed.getvalue()) > 5
