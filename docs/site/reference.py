"""The pages of the site that the code writes: the API, the command line, the settings of recipes.

Nothing is listed by hand. A module is public if it has `__all__`, and its public names are those; or if Python on one of the
pages imports from it, and its public names are then what is defined in it, without an underscore.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

from typer.main import get_command

import regard
from regard.cli.main import app
from regard.generation.settings import GenerationSettings
from regard.models import MODELS
from regard.tasks import TASKS
from regard.training.settings import AdapterSettings, TrainingSettings

DOCS = Path(__file__).parents[1]
IMPORTS = re.compile(r"^ *(?:from (regard[\w.]*) import|import (regard[\w.]+))", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LONGEST_VALUE = 200  # a constant that is longer is not printed


def write(folder: Path) -> None:
    """Write every page into a folder: `api/`, `command-line/`, `recipes.md`."""
    for name, text in {**api_pages(), **command_pages(), "recipes.md": settings_page()}.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (
            not place.exists() or place.read_text(encoding="utf-8") != text
        ):  # what is the same is not read again by Sphinx
            place.write_text(text, encoding="utf-8")


# The API.


def public_modules() -> dict[str, list[str]]:
    """Every public module of the package and its public names."""
    shown = {
        module
        for page in DOCS.rglob("*.md")
        for block in PYTHON.findall(page.read_text(encoding="utf-8"))
        for pair in IMPORTS.findall(block)
        for module in pair
        if module
    }
    every = [
        "regard",
        *(found.name for found in pkgutil.walk_packages(regard.__path__, "regard.") if importable(found.name)),
    ]
    modules = {name: importlib.import_module(name) for name in every if is_public(name, shown)}
    exported = {id(getattr(module, name)) for module in modules.values() for name in getattr(module, "__all__", ())}
    names = {name: names_of(module, exported) for name, module in modules.items()}
    return {module: listed for module, listed in names.items() if listed}


def importable(name: str) -> bool:
    """Whether a module is looked at: what runs a program when it is imported is not."""
    return not name.endswith("__main__")


def is_public(name: str, shown: Iterable[str]) -> bool:
    """Whether a module has `__all__`, or pages import from it."""
    if name in shown:
        return True
    spec = importlib.util.find_spec(name)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
    return re.search(r"^(?:[\w, ]+, )?__all__ = ", source, re.MULTILINE) is not None


def names_of(module: ModuleType, exported: Iterable[int]) -> list[str]:
    """The public names of a module; of one without `__all__`, what it defines and no package exports."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        defined = {
            name: value
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
            and (inspect.isclass(value) or inspect.isfunction(value))
        }
        listed = [name for name, value in defined.items() if not name.startswith("_") and id(value) not in exported]
    return sorted((name for name in listed if not inspect.ismodule(getattr(module, name))), key=str.lower)


def api_pages() -> dict[str, str]:
    """A page for each part of the package, and one that lists them."""
    modules = public_modules()
    parts: dict[str, list[str]] = {}
    for name in modules:
        parts.setdefault(".".join(name.split(".")[:2]), []).append(name)
    described: dict[str, str] = {}
    pages = {f"api/{part}.rst": api_page(part, names, modules, described) for part, names in parts.items()}
    pages["api/index.md"] = listing(
        "API",
        "Every public name, by the package it is imported from: what stands in a package's `__all__`, and the modules that "
        "the guides import from.",
        {part: first_line(part) for part in parts},
        ".rst",
    )
    return pages


def listing(title: str, text: str, pages: Mapping[str, str], suffix: str) -> str:
    """A page that lists those beside it, by name and what is said of each."""
    points = "\n".join(f"- [{name}]({name}{suffix}): {said}" for name, said in pages.items())
    tree = "\n".join(pages)
    return f"# {title}\n\n{text}\n\n{points}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def first_line(module: str) -> str:
    """What a module's docstring begins with."""
    return (importlib.import_module(module).__doc__ or "").strip().splitlines()[0].rstrip(".")


def api_page(part: str, names: list[str], modules: Mapping[str, list[str]], described: dict[str, str]) -> str:
    """What Sphinx reads: every name of some modules, by autodoc.

    Arguments:
        part: the package that the page is about.
        names: its public modules.
        modules: of every module, its public names.
        described: where each object is described, by where it is defined; extended by this page's.
    """
    lines = [part, "=" * len(part), ""]
    for module in names if part in names else [part, *names]:
        if module != part:
            lines += [module, "-" * len(module), ""]
        lines += [f".. automodule:: {module}", "   :no-members:"]
        lines += [*(["   :no-index:"] if module in described.values() else []), ""]
        again = []
        for name in modules.get(module, ()):
            place = definition(module, name)
            if place in described:
                again.append(f":py:obj:`{name} <{described[place]}>`")
            else:
                kind, *options = directive(module, name, place)
                described[place] = kind.split()[-1]
                lines += [kind, *options, ""]
        if again:
            lines += [f"Also here: {', '.join(again)}.", ""]
    return "\n".join(lines) + "\n"


def definition(module: str, name: str) -> str:
    """Where what a module exports is defined."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{home_of(module, name)}.{name}"


def directive(module: str, name: str, place: str) -> list[str]:
    """The directive for one name, and its options; a constant's docstring stands where it is assigned."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return [f".. {kind}:: {module}.{name}", "   :members:", "   :show-inheritance:"]
    if inspect.isroutine(value):
        return [f".. autofunction:: {module}.{name}"]
    long = len(repr(value)) > LONGEST_VALUE or " at 0x" in repr(value)
    return [f".. autodata:: {place}", *(["   :no-value:"] if long else [])]


def home_of(module: str, name: str) -> str:
    """The module in which a constant is assigned: there its docstring stands."""
    source = Path(str(sys.modules[module].__file__))
    stub = source.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else source).read_text(encoding="utf-8"))
    package = module if source.stem == "__init__" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == name for each in node.names):
            return home_of(load(f"{package}.{node.module}" if node.level else str(node.module)), name)
    return module


def load(module: str) -> str:
    """The name of a module, imported."""
    return importlib.import_module(module).__name__


# The command line.


def command_pages() -> dict[str, str]:
    """A page for each command, and one that lists them."""
    root: Any = get_command(app)
    context = root.make_context("regard", [], resilient_parsing=True)
    commands = {name: root.get_command(context, name) for name in root.list_commands(context)}
    pages = {
        f"command-line/{name}.md": "\n".join(command_section(command, f"regard {name}", "#", context))
        for name, command in commands.items()
    }
    pages["command-line/index.md"] = listing(
        "Command line",
        "Every command, as `regard COMMAND --help` describes it. `regard --version` prints the version.",
        {name: plain(command.get_short_help_str(1000).rstrip(".")) for name, command in commands.items()},
        ".md",
    )
    return pages


def command_section(command: Any, path: str, level: str, parent: Any) -> Iterator[str]:
    """What a command's help says, and below it its own commands."""
    context = command.make_context(path.split()[-1], [], parent=parent, resilient_parsing=True)
    yield f"{level} {path}\n"
    yield prose(command.help or "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{path} {usage}\n```\n"
    given = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
    arguments = [each for each in given if each.param_type_name == "argument"]
    options = [each for each in given if each.param_type_name != "argument"]
    for title, listed in (("Arguments", arguments), ("Options", options)):
        if listed:
            yield f"**{title}**\n"
            yield from (entry(each, context) for each in listed)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from command_section(command.get_command(context, name), f"{path} {name}", level + "#", context)


def prose(text: str) -> str:
    """Help as Markdown: paragraphs, and what a backspace keeps apart as a block of its own."""
    shown = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            title, _, lines = paragraph[1:].strip("\n").partition("\n")
            if lines and title.endswith(":"):
                shown.append(f"{plain(title)}\n\n```sh\n{inspect.cleandoc(lines)}\n```")
            else:
                shown.append(f"```text\n{inspect.cleandoc(paragraph[1:])}\n```")
        else:
            shown.append(plain(paragraph))
    return "\n\n".join(shown) + "\n"


def plain(text: str) -> str:
    """Words of help in which nothing is markup but code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]$|#{}])", r"\\\1", part) for part in parts)


def entry(parameter: Any, context: Any) -> str:
    """One argument or option, as a term and its definition."""
    term, meaning = parameter.get_help_record(context) or (parameter.human_readable_name, "")
    return f"`{term}`\n: {plain(meaning) or 'See above.'}\n"


# The settings of recipes.


def settings_page() -> str:
    """Every section of a recipe with every key: by task, by model, and those that all have."""
    lines = [
        "# Settings of recipes\n",
        "Every key that a recipe may have. [Training](../training.md) says what a recipe is; `regard train RECIPE key=value` "
        "overrides one.\n",
        "## Sections that every recipe may have\n",
    ]
    for title, kind in (
        ("training", TrainingSettings),
        ("generation", GenerationSettings),
        ("adapters", AdapterSettings),
    ):
        lines += [f"### {title}\n", shown(kind, title)]
    lines.append("## Sections by task\n")
    described: dict[tuple[type, str], str] = {}
    for name in TASKS.packaged:
        lines.append(f"### task: {name}\n")
        for section, kind in TASKS[name].sections.items():
            if kind is GenerationSettings:
                lines.append("`generation`: [as above](#generation).\n")
            elif (kind, section) in described:
                lines.append(f"`{section}`: as under task {described[kind, section]}.\n")
            else:
                described[kind, section] = name
                lines += with_nested(kind, section)
    lines.append("## Models: the section model\n")
    for name in MODELS.packaged:
        config = MODELS[name].config
        lines += [f"### model.name: {name}\n", f"{plain(first_sentence(config))}\n", shown(config, "model")]
    return "\n".join(lines)


def first_sentence(kind: type) -> str:
    """What a docstring begins with."""
    return inspect.cleandoc(kind.__doc__ or "").splitlines()[0]


def with_nested(kind: type[Any], section: str) -> list[str]:
    """The table of a section, and those of the sections inside it."""
    lines = [f"**{section}**\n", shown(kind, section)]
    for name, hint in get_type_hints(kind).items():
        inner = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and dataclasses.is_dataclass(each)]
        for each in inner:
            lines += with_nested(each, f"{section}.{name}")
    return lines


def shown(kind: type[Any], section: str) -> str:
    """The table of a section, as `docs/tables.py` writes it; what a config leaves to the one it extends is said from there."""
    sys.path.insert(0, str(DOCS))
    try:
        import tables
    finally:
        sys.path.remove(str(DOCS))
    parts = {part.name: part for part in dataclasses.fields(kind)}
    rows, described = ["| key | default | meaning |", "|---|---|---|"], set[str]()
    for each in kind.__mro__[:-1]:
        for names, meaning in tables.entries(each):
            new = [name for name in names if name in parts and name not in described]
            described.update(new)
            kept = [name for name in new if name not in tables.FILLED_IN and f"{section}.{name}" not in tables.DECIDED]
            if kept:
                keys = ", ".join(f"`{section}.{name}`" for name in kept)
                rows.append(f"| {keys} | {', '.join(tables.default(parts[name]) for name in kept)} | {meaning} |")
    if parts.keys() - described:
        raise ValueError(f"{kind.__name__}: its docstring says nothing of {sorted(parts.keys() - described)}")
    return "\n".join(rows) + "\n"
