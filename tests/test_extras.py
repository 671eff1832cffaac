"""Optional libraries: every message that asks for one names an extra that exists and brings it; the pages list them all."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
NAMED = re.compile(r"regard\[([\w,{}]+)\]")
PACKAGES = {
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "rouge_score": "rouge-score",
    "scipy": "scikit-learn",
}
"""Where the module and the package that brings it are called differently."""


def texts() -> Iterator[tuple[str, str]]:
    for path in sorted([*SOURCE.rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]):
        for name in NAMED.findall(path.read_text("utf-8")):
            yield str(path.relative_to(ROOT)), name


def test_every_extra_that_is_named_exists():
    found = [(place, each) for place, names in texts() for each in names.split(",") if "{" not in each]
    assert len(found) > 30
    assert [(place, each) for place, each in found if each not in EXTRAS] == []


def handlers() -> Iterator[tuple[str, list[str], str]]:
    """Where a missing library becomes a sentence: the place, the modules that were tried, and what is raised."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Try):
                continue
            tried = [
                name
                for each in node.body
                for part in ast.walk(each)
                if isinstance(part, ast.Import | ast.ImportFrom)
                for name in (
                    [part.module] if isinstance(part, ast.ImportFrom) else [alias.name for alias in part.names]
                )
                if name and name.split(".")[0] not in {"regard", *sys.stdlib_module_names}
            ]
            for handler in node.handlers:
                caught = ast.unparse(handler.type) if handler.type is not None else ""
                said = "".join(ast.unparse(each) for each in handler.body)
                if ("ImportError" in caught or "ModuleNotFoundError" in caught) and "raise InputError" in said:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", tried, said


HANDLERS = list(handlers())


def test_there_are_such_places():
    assert len(HANDLERS) > 20


@pytest.mark.parametrize(("place", "tried", "said"), HANDLERS, ids=[place for place, *_ in HANDLERS])
def test_a_missing_library_is_asked_for_by_an_extra_that_brings_it(place, tried, said):
    named = NAMED.findall(said)
    assert not tried or "pip install" in said, said
    for name in named:
        if "{" in name:  # filled in when it is raised
            continue
        brought = {re.match(r"[\w-]+", each).group().lower().replace("_", "-") for each in EXTRAS[name]}  # type: ignore[union-attr]
        for module in tried:
            top = module.split(".")[0]
            assert PACKAGES.get(top, top).lower().replace("_", "-") in brought, f"{place}: {top} is not in [{name}]"


def test_the_page_on_installing_lists_every_extra():
    page = (ROOT / "docs" / "installing.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == EXTRAS.keys()
