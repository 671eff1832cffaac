"""Whether every link inside a built site leads somewhere, and whether a page loads anything from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

ELSEWHERE = re.compile(r"(?:https?:)?//|mailto:", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:@import\s+(?:url\()?|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")
LOADING = {
    "link": "href",
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}


@dataclass(kw_only=True)
class Checked:
    """What was found in a site.

    Arguments:
        pages: how many there are.
        inside: how many links lead to the site itself, with their anchors.
        broken: those of them that lead nowhere.
        elsewhere: the addresses that readers are led to elsewhere; they are not followed.
        loaded: what pages or style sheets would fetch from elsewhere.
    """

    pages: int = 0
    inside: int = 0
    broken: list[str] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = [
            f"{self.pages} pages, {self.inside:,} links inside, {len(self.broken)} broken",
            f"{len(self.elsewhere)} addresses elsewhere, not followed",
            f"{len(self.loaded)} loaded from elsewhere",
        ]
        return "; ".join(said) + "".join(f"\n{each}" for each in (*self.broken, *self.loaded))


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif LOADING.get(tag) in given and not given[LOADING[tag]].startswith("data:"):
            self.loads.append(given[LOADING[tag]])


def check(site: Path) -> Checked:
    """Read every page and style sheet of a site; a live page (`_static/live`) keeps its state after the #, which is no anchor."""
    site = site.resolve()
    pages = {
        place: Page(place.read_text(encoding="utf-8")) for place in site.rglob("*.html") if "live" not in place.parts
    }
    found = Checked(pages=len(pages))
    for place, page in pages.items():
        for address in (*page.links, *page.loads):
            if ELSEWHERE.match(address):
                continue
            found.inside += 1
            path, anchor = urldefrag(address)
            target = (place.parent / unquote(path).partition("?")[0]).resolve() if path else place
            known = pages.get(target)
            if not target.exists() or (anchor and known and unquote(anchor) not in known.anchors):
                found.broken.append(f"{place.relative_to(site)}: {address}")
        found.elsewhere |= {urldefrag(address)[0] for address in page.links if ELSEWHERE.match(address)}
        found.loaded += [f"{place.relative_to(site)}: {each}" for each in page.loads if ELSEWHERE.match(each)]
    for sheet in site.rglob("*.css"):
        found.loaded += [
            f"{sheet.relative_to(site)}: {each}" for each in IN_STYLE.findall(sheet.read_text(encoding="utf-8"))
        ]
    return found
