"""The page of a walk."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.attention import AttentionInputs, Causal, ScaledDot, ScoredAttention
from regard.errors import InputError
from regard.inspection import walk, walk_attention
from regard.inspection.walk import Walk, terminal
from regard.inspection.walk.page import html_page
from regard.inspection.walk.steps import MOST

EVIL = "</script><img src=x onerror=alert(1)>"


class Reader(HTMLParser):
    """Every element with its attributes, and all text by the element it stands in; what waits in templates apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.waiting: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        (self.waiting if "template" in self.open else self.elements).append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self):
        return json.loads(next(text for tag, text in self.texts if tag == "script"))


@pytest.fixture
def seen(translator) -> Walk:
    return walk(translator("transformer", norm="post"), "abcd", "c", layer="encoder.layers.0.attention")


def long_walk(count: int, **names) -> Walk:
    generator = torch.Generator().manual_seed(1)
    inputs = AttentionInputs(
        query=torch.randn(1, 1, 1, 6, generator=generator), key=torch.randn(1, 1, count, 6, generator=generator)
    )
    return walk_attention(
        ScoredAttention(ScaledDot()), inputs, torch.randn(1, 1, count, 3, generator=generator), **names
    )


def test_the_page_is_whole_and_links_to_nothing_outside(seen):
    page = html_page(seen)
    reader = Reader(page)
    assert reader.open == []
    assert page.startswith("<!doctype html>")
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in (*reader.elements, *reader.waiting):
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "srcset", "action", "background"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert attributes["href"].removeprefix("#") in ids
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids
    assert not re.search(r"https?:|//[a-z]+\.|url\(|@import", page)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|sendBeacon|\beval\(|innerHTML", page)
    policy = next(meta["content"] for meta in reader.named("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert "{{" not in page
    script = [text for tag, text in reader.texts if tag == "script"][1]
    assert set(re.findall(r'\$\("([\w-]+)"\)', script)) <= set(ids)


def test_every_step_has_its_words_code_and_numbers(seen):
    page = html_page(seen)
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    for step in seen.steps:
        places = [f"{line.file}:{line.line}" for line in step.lines]
        wanted = [step.title, step.sentence, *step.notes, *places, *(line.text for line in step.lines)]
        assert [each for each in wanted if each not in text] == []
    assert len(Reader(page).named("section")) == len(seen.steps)
    weight = float(seen.weights.max())
    assert re.search(rf'<td title="{weight:.7g}">{weight:.2f}0?</td>', page)


def test_strips_can_be_reached_and_read_without_a_mouse(seen):
    reader = Reader(html_page(seen))
    strips = [part for part in reader.named("div") if (part.get("class") or "").startswith("strips")]
    assert 5 < len(strips) < len(reader.data)  # the others are those of other queries
    for number, part in enumerate(strips):
        assert part["tabindex"] == "0"
        assert part["data-item"] == str(number)
        assert "arrow keys" in (part["aria-label"] or "")
    readout = next(part for part in reader.named("p") if part.get("id") == "readout")
    assert readout["aria-live"] == "polite"
    assert dict(reader.elements[0][1])["lang"] == "en"


def test_the_numbers_behind_strips_are_those_of_the_walk(seen):
    data = Reader(html_page(seen)).data
    first = {item["name"]: item for item in data[:4]}
    assert list(first) == ["x", "q", "k", "v"]
    for name, item in first.items():
        values = np.atleast_2d(seen.step("Queries, keys, values")[name])
        np.testing.assert_allclose(item["values"], values, rtol=1e-5)
    assert first["k"]["labels"] == ["a", "b", "c", "d", "</s>"]


@pytest.mark.parametrize("place", ["title", "address", "mechanism", "query", "keys", "notes", "step"])
def test_text_from_outside_is_inert_wherever_it_stands(place, seen):
    if place == "keys":
        keys = (EVIL, "{{data}}", "&lt;", "\u202e", "<b>")
        seen = long_walk(5, keys=keys)
    elif place == "step":
        seen = replace(
            seen, steps=(replace(seen.steps[0], sentence=EVIL, equation=EVIL, notes=(EVIL,)), *seen.steps[1:])
        )
    else:
        seen = replace(seen, **{place: (EVIL,) if place == "notes" else EVIL})
    page = html_page(seen)
    reader = Reader(page)
    assert reader.open == []
    assert not reader.named("img")
    assert not [tag for tag, _ in reader.waiting if tag in ("img", "script")]
    assert len(reader.named("script")) == 2
    assert "\u202e" not in page
    shown = "".join(text for tag, text in reader.texts if tag not in ("script", "style"))
    assert EVIL in shown.replace("␣", " ")


def test_byte_level_tokens_are_shown_as_text_on_the_page_and_the_terminal():
    walked = long_walk(3, keys=("The", "ĠcafÃ©", "Ċ"))
    reader = Reader(html_page(walked))
    shown = "".join(text for tag, text in reader.texts if tag not in ("script", "style"))
    assert ("␣café" in shown, "⏎" in shown, "Ġ" in shown, "Ċ" in shown) == (True, True, False, False)
    assert 'title="ĠcafÃ©"' in html_page(walked)
    assert "␣ in a token is a space." in shown
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal.render(walked, colour=False))
    printed = console.export_text()
    assert ("␣café" in printed, "Ġ" in printed) == (True, False)
    assert walked.keys == ("The", "ĠcafÃ©", "Ċ")  # the data have what the tokenizer says


def test_of_many_keys_the_strongest_are_shown(seen):
    many = long_walk(300)
    page = html_page(many)
    assert f"Of the 300 keys the {MOST} with the largest weights are shown" in page
    data = Reader(page).data
    keys = next(item for item in data if item["name"] == "k")
    strongest = sorted(np.argsort(-many.weights)[:MOST].tolist())
    assert keys["labels"] == [str(index) for index in strongest]
    assert len(page) < 300_000
    assert "keys the" not in html_page(seen)


def test_what_may_not_be_seen_is_marked():
    inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.ones(1, 1, 3, 2), mask=Causal())
    page = html_page(walk_attention(ScoredAttention(ScaledDot()), inputs, torch.ones(1, 1, 3, 2), keys=["a", "b", "c"]))
    assert page.count("may not be seen from here</small>") == 2 * 4  # two keys in four tables
    assert page.count("class=unseen") == 2


def test_files_and_notebooks(seen, tmp_path):
    seen.show(tmp_path / "walk.html")
    assert (tmp_path / "walk.html").read_text() == html_page(seen)
    seen.show(tmp_path / "walk.json")
    assert json.loads((tmp_path / "walk.json").read_text()) == json.loads(seen.to_json())
    frame = seen._repr_html_()
    assert 'sandbox="allow-scripts"' in frame
    assert html.unescape(frame.partition('srcdoc="')[2].partition('"')[0]).startswith("<!doctype html>")
    with pytest.raises(InputError, match=r"give one that ends in \.html or \.json"):
        seen.show(tmp_path / "walk.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        seen.show(tmp_path / "none" / "walk.html")
