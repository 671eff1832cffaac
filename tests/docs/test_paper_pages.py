"""The pages of the papers all have one order, a command that runs in a minute, a figure that it made, and traps."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from regard.training import read_recipe

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "papers").glob("*.md") if page.name != "index.md")
ORDER = [
    "In a minute",
    "What it says",
    "Where it is in the code",
    "What it looks like",
    "Traps",
    "Where Regard departs",
    "Published settings and numbers",
]


def of_the_docs(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCS = of_the_docs("pages")


def sections_of(page: Path) -> dict[str, str]:
    return DOCS.sections(page.read_text("utf-8"))


def named(page: Path) -> str:
    return page.stem


pages = pytest.mark.parametrize("page", PAGES, ids=named)


@pages
def test_a_page_has_the_sections_of_all_in_their_order(page: Path) -> None:
    head, *_ = found = DOCS.sections(DOCS.BLOCK.sub("", page.read_text("utf-8")))
    assert list(found) == [head, *ORDER]
    assert found[""].startswith("# ")
    assert re.search(r"\b(19|20)\d\d\b", found[""])
    assert "In Regard:" in re.sub(r"\s+", " ", found[""])
    assert all(text.strip() for text in found.values())


@pages
def test_a_minute_is_a_command_with_what_it_prints_and_what_varies(page: Path) -> None:
    text = sections_of(page)["In a minute"]
    shown = DOCS.blocks_in(text)
    assert [block.kind for block in shown[:2]] == ["sh", "output"]
    typed = list(DOCS.commands(shown[0].text))
    assert 1 <= len(typed) <= 3
    for name, *arguments in (shlex.split(command)[1:] for command in typed):
        assert not any(argument.startswith("recipes/") for argument in arguments)  # there is no such folder
        if name == "train":
            # A model that the command before has trained cannot be read yet: a family stands in for it.
            settings = [
                each for each in arguments[1:] if "=" in each and not each.startswith("model.pretrained_layers=")
            ]
            settings = [re.sub(r"^model\.pretrained=.*", "model.name=bert", each) for each in settings]
            read_recipe(arguments[0], settings)
    assert DOCS.VARYING.search(shown[1].text), "give a figure with how far it may vary: 98 ± 2"


@pages
def test_equations_and_the_table_of_their_places_are_there(page: Path) -> None:
    found = sections_of(page)
    assert "$" in found["What it says"]
    assert re.search(r"^\|---", found["Where it is in the code"], re.MULTILINE)
    assert "`test" in found["Where it is in the code"] + found["Traps"] or ".py`" in found["Where it is in the code"]


@pages
def test_a_figure_of_its_own_is_shown_and_small(page: Path) -> None:
    shown = re.findall(r"!\[([^\]]{20,})\]\(\.\./(images/paper-[\w-]+\.png)\)", page.read_text("utf-8"))
    assert [path for _, path in shown] == [f"images/paper-{page.stem}.png"]
    assert (ROOT / "docs" / shown[0][1]).stat().st_size < 60_000


@pages
def test_traps_are_several(page: Path) -> None:
    assert len(re.findall(r"^- ", sections_of(page)["Traps"], re.MULTILINE)) >= 2


@pages
def test_published_numbers_say_whether_they_were_reproduced(page: Path) -> None:
    text = re.sub(r"\s+", " ", sections_of(page)["Published settings and numbers"])
    assert re.search(r"(not|none of them|no figure|nothing) (been )?reproduced|has reproduced|not reproduced", text)
