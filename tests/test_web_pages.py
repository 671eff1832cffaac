"""What pages are put together with: modules, templates, policies."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib import resources

import pytest

from regard.web import framed, json_in_script, page
from regard.web import pages as web

VIEWS = ("viewer", "walk", "report", "questionnaire", "map")


@pytest.fixture
def files(monkeypatch):
    """Modules that a test gives by name instead of those of the package."""
    given: dict[str, str] = {}
    monkeypatch.setattr(web, "asset", lambda name: given[name.removeprefix("static/")])
    return given


def test_modules_are_put_together_in_the_order_of_their_imports(files):
    files["pages/a.js"] = 'import { b, c as d } from "../b.js";\nimport {\n  e,\n} from "../deep/e.js";\n\nd(b, e);\n'
    files["b.js"] = (
        'import { e } from "./deep/e.js";\nexport const b = e + 1;\nexport function c() {}\nconst own = 1;\n'
    )
    files["deep/e.js"] = "export const e = 1;\nexport async function f() {}\nexport class G {}\n"
    script = web.bundled("pages/a.js")
    assert re.findall(r"^// (.*)$", script, re.MULTILINE) == ["deep/e.js", "b.js", "pages/a.js"]
    assert "const { b, c: d } = module1;\nconst { e } = module0;\n" in script
    assert "return { b, c };" in script
    assert "return { e, f, G };" in script
    assert not re.search(r"^(import|export)", script, re.MULTILINE)


@pytest.mark.parametrize(
    "line",
    [
        'import b from "./b.js";',
        'import * as b from "./b.js";',
        'import "./b.js";',
        'import { b } from "b";',
        "export default 1;",
        "export let b = 1;",
        "export { b };",
        'export * from "./b.js";',
        "export const { b } = c;",
    ],
)
def test_what_is_outside_the_subset_is_refused(files, line):
    files["a.js"], files["b.js"] = f"{line}\n", "export const b = 1;\n"
    with pytest.raises(ValueError, match="outside the subset"):
        web.bundled("a.js")


def test_a_circle_of_modules_is_refused(files):
    files["a.js"] = 'import { b } from "./b.js";\nexport const a = 1;\n'
    files["b.js"] = 'import { a } from "./a.js";\nexport const b = 1;\n'
    with pytest.raises(ValueError, match=r"a\.js -> b\.js -> a\.js"):
        web.bundled("a.js")


@pytest.mark.parametrize("name", VIEWS)
def test_every_page_is_one_script_named_by_its_policy(name):
    script = web.bundled(f"pages/{name}.js")
    assert "</script" not in script
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(|sendBeacon|\beval\(|innerHTML", script)


def test_every_module_is_in_a_page_or_is_for_a_server():
    folder = resources.files("regard.web").joinpath("static")
    there = {
        path.name
        for part in (folder, folder / "viewer", folder / "map")
        for path in part.iterdir()
        if path.name.endswith(".js")
    }
    used = {
        line.rpartition("/")[2]
        for name in VIEWS
        for line in re.findall(r"^// (\S+\.js)$", web.bundled(f"pages/{name}.js"), re.M)
    }
    # Of a server, of a notebook, and of the slides that the studio saves.
    assert there - used == {"fetched.js", "widget.js", "slides.js"}


def parts() -> dict[str, object]:
    return {"title": "<b>", "count": "1"}


def test_a_page_is_offline_or_served():
    offline = page("questionnaire", parts(), data=["</script>"], styles=("questionnaire.css",))
    script = re.findall(r"<script>(.*?)</script>", offline, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert len(script) == 1
    assert f"script-src 'sha256-{digest}'" in html.unescape(offline)
    assert "<title>&lt;b&gt;</title>" in offline
    assert '["\\u003c/script\\u003e"]' in offline
    served = page("questionnaire", parts(), data=[], styles=("questionnaire.css",), served="/static")
    assert '<script type="module" src="/static/pages/questionnaire.js"></script>' in served
    assert '<link rel="stylesheet" href="/static/shell.css">' in served
    assert "<style>" not in served
    assert "script-src 'self'" in html.unescape(served)


def test_frames_and_json_are_inert():
    assert json_in_script("<&>") == '"\\u003c\\u0026\\u003e"'
    assert 'title="&#34;&gt;"' in framed("<p>", '">', height=1)
