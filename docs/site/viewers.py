"""The live pages in the site: saved pages of the viewer and of a walk, made of the demonstration's models when it is built.

A page of `docs/` marks their place by a comment, which a reader of the repository does not see: `<!-- live: date -->`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PLACE = re.compile(r"^<!-- live: (?P<name>\w+) -->$", re.MULTILINE)
DATE = "Dienstag, 9. Mai 2017"
TALK = "<user>\nwhere does Eva live?\n<assistant>\nEva lives in Kyoto."


@dataclass(frozen=True)
class LivePage:
    """A saved page, as it stands in the site.

    Arguments:
        title: what the frame is called, and the caption below it.
        height: of the frame, in pixels.
        state: what stands after the # of its address.
    """

    title: str
    height: int
    state: str = ""


LIVE = {
    "date": LivePage(
        "What a translator of dates looks at in the source while it writes. Point at a cell; the tabs show it in other ways.",
        760,
        "view=heatmap&query=2",
    ),
    "talk": LivePage(
        "A small language model that has read conversations: what the studio shows of it, saved. Choose a token or a head.",
        760,
        "view=heads",
    ),
    "walk": LivePage("A walk through one attention of that model: open a step, or press f for slides.", 760),
}


def write(folder: Path) -> None:
    """Make the pages that are not in a folder yet."""
    missing = [name for name in LIVE if not (folder / f"{name}.html").exists()]
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    import torch

    import regard
    from regard.inspection import walk
    from regard.inspection.viewer import save_page
    from regard.layers import Tokens
    from regard.serving import demo

    models = demo.models(print)
    translator, talker = regard.load(models["dates"]), regard.load(models["chat"])
    with regard.look(translator) as date:
        translator.translate(DATE)
    save_page(date.view(0), folder / "date.html")
    ids = talker.task.prompted(talker.task.tokenizer.encode(TALK))
    with regard.look(talker) as talk, torch.no_grad():
        talker.model(Tokens.pad([ids]))
    save_page(talk.view(0), folder / "talk.html")
    walk(talker, TALK.removesuffix("Kyoto."), position=17).show(folder / "walk.html")


def embedded(text: str, root: str) -> str:
    """A page with frames where it marks the places of live pages.

    Arguments:
        text: of the page.
        root: from the page to the top of the site: "" or "../".
    """
    return PLACE.sub(lambda found: frame(found["name"], root), text)


def frame(name: str, root: str) -> str:
    """A frame around a live page, as MyST reads it."""
    page = LIVE[name]
    address = f"{root}_static/live/{name}.html" + (f"#{page.state}" if page.state else "")
    return (
        '```{raw} html\n<figure class="live">\n'
        f'<iframe src="{address}" title="{page.title}" height="{page.height}" loading="lazy"></iframe>\n'
        f'<figcaption>{page.title} <a href="{address}">Open it alone</a></figcaption>\n</figure>\n```'
    )
