"""Writes the tables of settings in these pages from the dataclasses they describe: `python docs/tables.py`.

A page marks the place of a table, and names the class and the recipe section it stands for:

    <!-- settings: regard.training.settings.TrainingSettings training -->
    <!-- /settings -->

The keys and defaults are the dataclass's fields, the meanings its docstring. A test compares the pages with what this writes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PLACE = re.compile(r"(<!-- settings: (?P<name>[\w.]+) (?P<section>[\w.]+) -->\n).*?(<!-- /settings -->)", re.DOTALL)
# What tokenizers decide and a recipe may not say.
FILLED_IN = {"vocabulary", "source_vocabulary", "target_vocabulary", "padding_id", "start_id", "end_id"}
# What tasks without a tokenizer decide of a model.
DECIDED = {
    "model.image_height",
    "model.image_width",
    "model.image_channels",
    "model.frames",
    "model.inputs",
    "model.outputs",
    "model.ways",
    "model.shots",
    "model.side",
}


def main() -> None:
    """Rewrite the tables of every page."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        written = rewritten(text)
        if written != text:
            page.write_text(written, encoding="utf-8")
            print(page)


def rewritten(text: str) -> str:
    """A page with its tables written anew."""
    return PLACE.sub(lambda found: found[1] + table(found["name"], found["section"]) + found[4], text)


def table(name: str, section: str) -> str:
    """One row for each entry under `Arguments:` in the docstring of a dataclass."""
    module, _, attribute = name.rpartition(".")
    kind = getattr(importlib.import_module(module), attribute)
    parts = {part.name: part for part in dataclasses.fields(kind) if part.init}
    rows = ["| key | default | meaning |", "|---|---|---|"]
    described: set[str] = set()
    for names, meaning in entries(kind):
        described.update(names)
        shown = [each for each in names if each not in FILLED_IN and f"{section}.{each}" not in DECIDED]
        if shown:
            keys = ", ".join(f"`{section}.{each}`" for each in shown)
            rows.append(f"| {keys} | {', '.join(default(parts[each]) for each in shown)} | {meaning} |")
    if described != parts.keys():
        raise ValueError(f"{name}: its docstring and its fields differ in {sorted(described ^ parts.keys())}")
    return "\n".join(rows) + "\n"


def entries(kind: type[Any]) -> list[tuple[list[str], str]]:
    """What a docstring says of its arguments: names that are described together, and the description."""
    block = inspect.cleandoc(kind.__doc__ or "").partition("Arguments:\n")[2].partition("\n\n")[0]
    found: list[tuple[list[str], str]] = []
    for line in block.splitlines():
        start = re.match(r"    (\w+(?:, \w+)*): (.*)", line)
        if start:
            found.append((start[1].split(", "), start[2]))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return [(names, meaning.replace("|", "\\|")) for names, meaning in found]


def default(part: dataclasses.Field[Any]) -> str:
    """A default as YAML would have it."""
    if part.default is dataclasses.MISSING:
        return "see below" if part.default_factory is not dataclasses.MISSING else "(needed)"
    return f"`{json.dumps(part.default)}`"


if __name__ == "__main__":
    main()
