"""The pages are true: their Python runs, their commands run, their tables are the code's, what they name exists.

How blocks are executed is said in `docs/pages.py`. A ```sh block is not, because it takes long or changes the machine; its
`regard` commands are checked against the command line's own help and, where they name a recipe, against that recipe.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import os
import re
import shlex
import sys
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import regard
from regard.claims.comparison import read_comparison, read_grid
from regard.cli.main import main
from regard.tasks import TASKS
from regard.training import read_recipe
from regard.training.settings import TrainingSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
# What was measured is generated, and has tests of its own.
GENERATED = {DOCS / "results.md", DOCS / "speed.md", DOCS / "results", DOCS / "claims"}
GUIDES = sorted(page for page in DOCS.rglob("*.md") if not GENERATED & {page, *page.parents})
# The lessons of the course train real models: `benchmarks/course.py` runs them all, test_course.py a few; here they are read.
LESSONS = sorted((DOCS / "course").glob("[0-9]*.md"))
EVERY = [*GUIDES, README, ROOT / "CONTRIBUTING.md"]
SMALL = [
    "model.embedding_width=16",
    "model.hidden_width=16",
    "model.attention_width=16",
    "model.maxout_width=16",
    "data.dates.size=200",
    "data.dates.validation_size=20",
    "training.steps=2",
]
LONG = {
    "answering.md",
    "captioning.md",
    "chatbot.md",
    "claims.md",
    "classifying.md",
    "comparing.md",
    "dong-2021.md",
    "fine-tuning.md",
    "multilingual.md",
    "pretraining.md",
    "quickstart.md",
    "text-to-text.md",
    "training.md",
    "words-and-images.md",
}
"""Pages that take longest, five seconds to half a minute on a busy machine; CI executes them."""


def of_the_docs(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = of_the_docs("pages")
blocks, commands = PAGES.blocks, PAGES.commands


def called(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with the recipes of the repository at hand."""
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_here(command: str, where: str) -> str:
    """In this process: a process for each command of every page would import PyTorch a hundred times over."""
    shown, said = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        Path(os.devnull).open(encoding="utf-8") as nothing,
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(said),
    ):
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "stdin", nothing)
        code = main(shlex.split(command)[1:])
    if code:
        pytest.fail(f"{where}: `{command}` ended with {code}:\n{shown.getvalue()}\n{said.getvalue()}")
    return shown.getvalue()


def whole_runs(page: Path) -> Any:
    """A page, among the slow tests where it trains more than a toy."""
    return pytest.param(page, marks=pytest.mark.slow if page.name in LONG else ())


@pytest.mark.timeout(900)  # half a minute on an idle machine
@pytest.mark.parametrize("page", [whole_runs(page) for page in GUIDES if page not in LESSONS], ids=called)
def test_a_page_does_what_it_shows(page: Path, desk: Path) -> None:
    if page.name == "vectors.md":
        pytest.importorskip("gensim")  # which cannot be built for Python 3.14
    PAGES.run_page(page, run_here, called(page))


@pytest.mark.slow
def test_the_readme_does_what_it_shows(desk: Path) -> None:
    # The folder that `make demo` leaves, in a small size: that changes the answers and nothing else.
    regard.train(ROOT / "recipes" / "dates.yaml", SMALL, output=desk / "demo" / "dates")
    small_bert(desk / "path" / "to" / "bert")
    PAGES.run_page(README, PAGES.run_apart, called(README))
    assert "animal" in (desk / "attention.html").read_text("utf-8")


def small_bert(folder: Path) -> None:
    """A BERT with random weights and a vocabulary of a few words, as `transformers` writes it."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir(parents=True)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "animal",
        "did",
        "not",
        "cross",
        "street",
        "because",
        "it",
        ".",
    ]
    (folder / "vocab.txt").write_text("\n".join(words), "utf-8")
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)


@lru_cache
def help_of(command: str) -> str:
    return run_here(f"regard {command} --help".replace("  ", " "), "the command line")


@pytest.mark.parametrize("page", EVERY, ids=called)
def test_commands_that_are_only_shown_exist(page: Path) -> None:
    for block in blocks(page):
        for command in commands(block.text) if block.kind in ("sh", "bash") else ():
            name, *arguments = shlex.split(command)[1:]
            if name.startswith("-"):
                continue
            assert re.search(rf"\b{name}\b", help_of("")), f"{called(page)}: no command {name!r}"
            while "COMMAND [ARGS]" in help_of(name) and arguments:  # a group of commands
                assert re.search(rf"\b{arguments[0]}\b", help_of(name)), f"{called(page)}: no command {arguments[0]!r}"
                name = f"{name} {arguments.pop(0)}"
            for option in (each.partition("=")[0] for each in arguments if each.startswith("-")):
                assert re.search(rf"(?<![\w-]){option}(?![\w-])", help_of(name)), (
                    f"{called(page)}: {name} has no {option}"
                )
            if "--code" in arguments:  # names parts that the reader's own file brings
                continue
            recipe = next((each for each in arguments if each.startswith("recipes/")), None)
            if name == "train" and (ROOT / "recipes" / f"{arguments[0]}.yaml").is_file():
                recipe = f"recipes/{arguments[0]}.yaml"
            if recipe is not None:
                # What follows an option is its value: --budget steps=500.
                free = [each for before, each in pairwise(arguments) if not before.startswith("-")]
                settings = [each for each in free if re.match(r"[\w.]+=", each)]
                if name == "compare":
                    overrides, grid = read_grid(settings)
                    read_comparison(ROOT / recipe, overrides, grid=grid)
                else:
                    # A family stands in for the reader's own trained model.
                    settings = [each for each in settings if not each.startswith("model.pretrained_layers=")]
                    task = yaml.safe_load((ROOT / recipe).read_text("utf-8")).get("task", "translation")
                    family = {"encoder_decoder": "t5", "language_model": "gpt2"}.get(TASKS[task].interface, "bert")
                    read_recipe(
                        ROOT / recipe, [re.sub(r"^model\.pretrained=.*", f"model.name={family}", s) for s in settings]
                    )


def test_tables_of_settings_are_those_of_the_code() -> None:
    stale = [
        called(page)
        for page in GUIDES
        if of_the_docs("tables").rewritten(page.read_text("utf-8")) != page.read_text("utf-8")
    ]
    assert not stale, f"run python docs/tables.py; stale: {stale}"
    listed = (DOCS / "training.md").read_text("utf-8")
    for section in ("data", "data.dates", "tokenizer", "training", "generation"):
        assert f" {section} -->" in listed


def test_settings_of_classes_that_are_named_exist_and_all_are_named() -> None:
    tasks = ("classification", "multi_label_classification", "regression", "multi_output_regression")
    known = {f"data.{part.name}" for task in tasks for part in dataclasses.fields(TASKS[task].sections["data"])}
    page = (DOCS / "classifying.md").read_text("utf-8")
    listed = {
        key for row in re.findall(r"^\| (`data\..*)$", page, re.MULTILINE) for key in re.findall(r"`([\w.]+)`", row)
    }
    assert known <= listed
    named = re.findall(r"\bdata\.[a-z_]+", PAGES.BLOCK.sub("", page)) + re.findall(r'"(data\.\w+)=', page)
    assert {name for name in named if not name.startswith("data.LabelledData")} <= known | {"data.format"}
    training = {part.name for part in dataclasses.fields(TrainingSettings)}
    assert {name.partition(".")[2] for name in re.findall(r"\btraining\.[a-z_]+", page)} <= training


@lru_cache
def every_test() -> frozenset[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("page", EVERY, ids=called)
def test_tests_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text("utf-8")))
    assert named <= every_test(), f"no such tests: {sorted(named - every_test())}"


def test_every_lecture_test_is_named_on_the_page() -> None:
    page = (DOCS / "lectures.md").read_text("utf-8")
    file = ROOT / "tests" / "docs" / "test_lectures.py"
    for name in re.findall(r"^def (test_b\d\d\w+)", file.read_text("utf-8"), re.MULTILINE):
        assert f"`{name}`" in page


def test_every_row_of_the_lectures_links_to_its_proof() -> None:
    page = (DOCS / "lectures.md").read_text("utf-8")
    rows = re.findall(r"^\| (B-\d\d) \|(.*)\|$", page, re.MULTILINE)
    assert len(rows) > 20
    for number, rest in rows:
        *_, severity, proof = (cell.strip() for cell in rest.split("|"))
        assert severity in ("E", "C", "O")
        tests = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", proof)
        assert tests or (severity == "O" and "](claims.md)" in proof), f"{number} has severity {severity} and no proof"
        for name, file in tests:
            assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{number}: no {name} in {file}"


@pytest.mark.parametrize("page", EVERY, ids=called)
def test_links_lead_somewhere(page: Path) -> None:
    text = PAGES.BLOCK.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not is_made_later(target):
            assert (page.parent / target).exists(), f"{called(page)}: {target}"


@lru_cache
def anchors(page: Path) -> frozenset[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", PAGES.BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings)


@pytest.mark.parametrize("page", EVERY, ids=called)
def test_links_lead_to_headings_that_exist(page: Path) -> None:
    text = PAGES.BLOCK.sub("", page.read_text("utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        there = page.parent / target if target else page
        if there.suffix == ".md":
            assert anchor in anchors(there.resolve()), f"{called(page)}: {target}#{anchor}"


def is_made_later(target: str) -> bool:
    """Whether `make results` makes it."""
    return "results" in target


def test_figures_are_shown_and_small() -> None:
    shown = {
        (page.parent / name).resolve()
        for page in EVERY
        for name in re.findall(r"[(\"]([\w./-]*images/[\w.-]+\.png)", page.read_text("utf-8"))
    }
    figures = {path: path.stat().st_size for path in DOCS.rglob("images/*.png")}
    assert shown == set(figures)
    assert max(figures.values()) < 200_000


@pytest.mark.parametrize("page", EVERY, ids=called)
def test_code_that_is_named_exists(page: Path) -> None:
    """In the tables of equations and files: `src/regard/...py` and `file.py: Symbol`."""
    text = page.read_text("utf-8")
    for path in re.findall(r"`((?:src|tests|recipes|benchmarks|docs)/[\w./-]+\.\w+)`", text):
        assert (ROOT / path).is_file(), f"{called(page)}: no file {path}"
    for path, symbol in re.findall(r"`([\w/]+\.py):([\w.]+)`", text):
        file = ROOT / "src" / "regard" / path
        assert file.is_file(), f"{called(page)}: no file {path}"
        name = symbol.rpartition(".")[2]
        source = file.read_text("utf-8")
        assert re.search(rf"^\s*(?:def|class) {name}\b|^\s*{name}\b *[:=]|self\.{name} =", source, re.MULTILINE), (
            f"{called(page)}: no {symbol} in {path}"
        )
