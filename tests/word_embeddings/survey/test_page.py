"""The page that asks: whole in itself, and no word breaks it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from regard.word_embeddings.survey import Item, Questionnaire, html_page

EVIL = ("</script><img src=x onerror=alert(1)>", "<!--<script>", "{{data}}", "tea & \"milk\" 'x'", "שלום\u2028")


class Reader(HTMLParser):
    """Every element with its attributes, and the text of every script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script" and data.strip():
            self.scripts.append(data)


def page_of(*words: str) -> str:
    item = Item(
        name="1a",
        kind="neighbour",
        query=words[0],
        options=words,
        owners=(("secret-one",),) * len(words),
        tables=("secret-one",),
    )
    return html_page(Questionnaire(tables=("secret-one", "secret-two"), items=(item,), seed=0))


def test_words_come_back_as_they_are_and_make_no_element():
    read, plain = Reader(page_of(*EVIL)), Reader(page_of("a", "b"))
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in plain.elements]
    shown = json.loads(read.scripts[0])["items"][0]
    assert tuple(shown["options"]) == EVIL
    assert shown["query"] == EVIL[0]


def test_the_page_needs_nothing_beside_itself():
    page = page_of("a", "b")
    read = Reader(page)
    assert not re.search(r"https?:|//cdn|@import|url\(", page)
    assert not [tag for tag, attributes in read.elements if attributes.get("src") or attributes.get("href")]
    (policy,) = [each["content"] for tag, each in read.elements if each.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "{{" not in page


def test_no_name_of_the_vectors_is_in_the_page():
    assert "secret" not in page_of("a", "b")


def test_what_the_script_looks_for_is_there():
    page = page_of("a", "b")
    ids = {attributes.get("id") for _, attributes in Reader(page).elements}
    assert set(re.findall(r'\$\("(\w+)"\)', page)) <= ids
    labelled = [attributes["for"] for tag, attributes in Reader(page).elements if tag == "label"]
    assert labelled == ["judge"]
