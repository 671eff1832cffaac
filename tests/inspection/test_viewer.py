from __future__ import annotations

import base64
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import InputError
from regard.inspection.view import AttentionMap, AttentionView, Patches, png
from regard.inspection.viewer import StoredWeights, html_fragment, html_page, restore, save_page

EVIL = "</script><img src=x onerror=alert(1)>"


class Reader(HTMLParser):
    """Every element with its attributes, and the text of each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    @property
    def named(self) -> dict[str, str]:
        scripts = [attributes.get("id") or "" for tag, attributes in self.elements if tag == "script"]
        return dict(zip(scripts, self.text_of("script"), strict=True))

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    @property
    def data(self):
        return json.loads(self.named["data"])

    def tokens(self, side: str, i: int = 0) -> list[str]:
        return self.data["sides"][self.data["maps"][i][side]]["tokens"]


def a_view(**changes) -> AttentionView:
    query, key = changes.get("query", ["la", "maison"]), changes.get("key", ["the", "white", "house"])
    weights = np.random.default_rng(0).dirichlet(np.ones(len(key)), (2, len(query)))
    title, note = changes.get("title", "t"), changes.get("note", "")
    return AttentionView.of(weights, query, key, title=title, note=note)


def decoded(reader: Reader, i: int) -> np.ndarray:
    """A map's weights, computed from what the page holds as its script does it."""
    item = reader.data["maps"][i]
    query, key = (len(reader.data["sides"][item[side]]["tokens"]) for side in ("query", "key"))
    (text,) = [t for n, t in reader.named.items() if n == f"weights-{i}"]
    names = ("zero", "knee", "step", "size")
    stored = StoredWeights(shape=(item["heads"], query, key), text=text, **{name: item[name] for name in names})
    return restore(stored)[0]


def test_the_page_is_whole_and_links_to_nothing():
    page = html_page(a_view())
    reader = Reader(page)
    assert reader.open == []
    assert page.startswith("<!doctype html>")
    for tag, attributes in reader.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "a")
        assert not {"src", "href", "srcset", "action", "data", "background"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
    page = page.replace('xmlns="http://www.w3.org/2000/svg"', "")  # in a figure that the page saves
    assert not re.search(r"https?:|//[a-z]+\.|url\((?!#)|@import", page)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|sendBeacon|\beval\(|innerHTML", page)
    policy = next(a["content"] for t, a in reader.elements if t == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert "{{" not in page


def test_the_scripts_find_every_element_they_name():
    reader = Reader(html_page(a_view()))
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    script = reader.text_of("script")[-1]
    named = set(re.findall(r'\$\("([\w-]+)"\)', script))
    assert len(named) > 20
    assert named <= set(ids)
    references = [a[n] for _, a in reader.elements for n in ("aria-labelledby", "aria-describedby") if n in a]
    assert set(references) <= set(ids)


def test_what_a_person_needs_without_a_mouse_is_there():
    reader = Reader(html_page(a_view()))
    by_id = {attributes.get("id"): attributes for _, attributes in reader.elements}
    assert by_id["figure"]["tabindex"] == "0"
    assert by_id["readout"]["aria-live"] == "polite"
    assert dict(reader.elements[0][1])["lang"] == "en"
    for tag, attributes in reader.elements:
        if tag == "button" and attributes.get("id") in ("smaller", "larger"):
            assert attributes.get("aria-label")


@pytest.mark.parametrize("place", ["query", "key", "title", "note", "address", "example"])
def test_text_from_outside_is_inert_wherever_it_stands(place):
    query = ["la", EVIL if place == "query" else "b"]
    key = [EVIL if place == "key" else "the", "{{data}}", "&lt;"]
    item = AttentionMap(
        address=EVIL if place == "address" else "a",
        kind="cross",
        query_tokens=query,
        key_tokens=key,
        weights=np.ones((1, 2, 3)),
    )
    view = AttentionView(
        title=EVIL if place == "title" else "{{script}}",
        note=EVIL if place == "note" else "",
        maps=(item,),
        examples=(EVIL if place == "example" else "one",),
    )
    page = html_page(view)
    reader = Reader(page)
    assert "img" not in [tag for tag, _ in reader.elements]
    assert [tag for tag, _ in reader.elements].count("script") == 3  # data, weights of one map, program
    assert len(re.findall(r"</script", page)) == 3
    assert reader.tokens("key")[1:] == ["{{data}}", "&lt;"]
    if place in ("query", "key"):
        assert reader.tokens(place)[1 if place == "query" else 0].startswith("</script><img")
    if place == "title":
        assert reader.text_of("h1") == [EVIL]


@pytest.mark.parametrize("token", ["\u2028", "\ud800", "\x00", "\u202e", "مرحبا", "日本語", "<!--", "]]>", "\\", "'\""])
def test_any_token_makes_a_page_that_can_be_written(token):
    page = html_page(a_view(query=["a", token], title=token, note=token))
    page.encode()
    assert len(Reader(page).tokens("query")) == 2


def test_the_error_is_stated_on_the_page():
    reader = Reader(html_page(a_view()))
    assert "0.1% of themselves" in " ".join(reader.text_of("footer"))


def test_every_example_layer_and_head_is_on_the_page():
    maps = [
        AttentionMap(address=f"layers.{i}", kind="self", query_tokens=["a"], key_tokens=["b", "c"], example=e,
                     weights=np.full((3, 1, 2), i + e))
        for i in range(2)
        for e in range(2)
    ]  # fmt: skip
    reader = Reader(html_page(AttentionView(title="", maps=tuple(maps), examples=("one", "two"))))
    data = reader.data
    assert data["examples"] == ["one", "two"]
    assert [(m["address"], m["example"], m["heads"]) for m in data["maps"]] == [
        ("layers.0", 0, 3), ("layers.0", 1, 3), ("layers.1", 0, 3), ("layers.1", 1, 3),
    ]  # fmt: skip
    assert decoded(reader, 3).max() == pytest.approx(2, rel=1e-3)
    assert len(data["sides"]) == 2  # every map has the same tokens: they are there once


def test_a_base_size_model_makes_a_small_page():
    rng = np.random.default_rng(0)
    tokens = ["token"] * 60
    maps = [
        AttentionMap(address=f"layers.{i}", kind="self", query_tokens=tokens, key_tokens=tokens, weights=w)
        for i, w in enumerate(rng.random((8, 8, 60, 60), dtype=np.float32))
    ]
    assert len(html_page(AttentionView(title="", maps=tuple(maps)))) < 650_000


def test_byte_level_tokens_are_shown_as_text_and_keep_their_own_names():
    tokens = ["The", "Ġcaf", "Ã", "©"]
    reader = Reader(html_page(AttentionView.of(np.eye(4), tokens, tokens)))
    (side,) = reader.data["sides"]
    assert side["tokens"] == ["The", "␣caf", r"\xc3", r"\xa9"]
    assert side["raw"] == tokens
    assert side["texts"] == ["The", "café"]


def test_word_pieces_have_their_words_with_them():
    tokens = ["[CLS]", "tired", "##ness", "wins"]
    reader = Reader(html_page(AttentionView.of(np.eye(4), tokens, tokens)))
    assert reader.data["sides"] == [
        {"tokens": tokens, "words": [0, 1, 1, 2], "texts": ["[CLS]", "tiredness", "wins"], "patches": None}
    ]
    given = AttentionMap(address="a", kind="self", query_tokens=["a", "b"], key_tokens=["<b>", "d"], weights=np.ones((1, 2, 2)),
                         key_words=(5, 5))  # fmt: skip
    page = html_page(AttentionView(title="", maps=(given,)))
    assert [side["texts"] for side in Reader(page).data["sides"]] == [None, ["<b>d"]]
    assert "<b>" not in page


def test_an_image_is_in_the_page():
    image = np.zeros((4, 6, 3), dtype=np.uint8)
    patches = Patches(rows=2, columns=3, first=1)
    view = AttentionView.of(np.ones((1, 7)), ["a"], ["c", *"pppppp"], image=image, key_patches=patches)
    data = Reader(html_page(view)).data
    assert base64.b64decode(data["images"][0]) == png(image)
    assert data["sides"][1]["patches"] == [2, 3, 1]
    assert data["sides"][1]["words"] is None


def test_the_same_view_gives_the_same_page():
    assert html_page(a_view()) == html_page(a_view())


def test_save_page_writes_utf8_and_keeps_the_earlier_file_when_it_cannot(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    save_page(a_view(title="été"), path)
    assert "<title>été</title>" in path.read_text(encoding="utf-8")
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="the disk is full"):
        save_page(a_view(title="other"), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


def test_the_fragment_is_one_frame_with_the_page_in_it():
    view = a_view(title='"><script>alert(1)</script>', query=["a", EVIL])
    reader = Reader(html_fragment(view))
    ((tag, attributes),) = reader.elements
    assert tag == "iframe"
    assert set(attributes["sandbox"].split()) == {"allow-scripts", "allow-downloads", "allow-modals"}  # modals: print
    assert attributes["srcdoc"] == html_page(view)
    assert attributes["title"] == '"><script>alert(1)</script>'
