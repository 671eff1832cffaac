"""The course's lessons: all are read here, two are run as their pages show them; `benchmarks/course.py` runs every one."""

from __future__ import annotations

import importlib.util
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "course").glob("[0-9]*.md"))


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("course", ROOT / "benchmarks" / "course.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_lesson_has_its_parts(page: Path, course: ModuleType) -> None:
    text = page.read_text("utf-8")
    assert 50 <= text.count("\n") <= 140
    assert text.startswith(f"# {course.number(page)}. ")
    assert "](../papers/" in text
    assert course.FIGURE.search(text)
    question, _, answer = text.partition("\n## A question\n")
    assert question
    assert "<details>" in answer
    assert re.search(r"^```(bash|python)$", answer, re.MULTILINE)
    for block in course.part_of_the_docs("pages").blocks(page):
        if block.kind == "python":
            compile(block.text, str(page), "exec")


def test_lessons_lead_on() -> None:
    for page, following in pairwise(PAGES):
        assert page.read_text("utf-8").rstrip().splitlines()[-1].endswith(f"]({following.name}).")


def test_numbers_of_an_output_may_vary_as_far_as_the_page_says(course: ModuleType) -> None:
    is_shown = course.part_of_the_docs("pages").is_shown
    assert is_shown("right  1,072 ± 10.5 %\n...", "right 1061.5 % of 3\nmore")
    assert not is_shown("right 1,072 ± 10.5 % ...", "right 1061.4 % of 3")
    assert not is_shown("right 72 ± 10 %", "right")
    assert is_shown("pointing 0.97 ± 0.03", "pointing 1")  # where 1 - 0.97 of floats is above 0.03


@pytest.mark.slow
@pytest.mark.timeout(900)  # two minutes on an idle machine
@pytest.mark.parametrize("page", [page for page in PAGES if page.name[:2] in ("02", "07")], ids=lambda page: page.stem)
def test_a_lesson_does_what_it_shows(page: Path, course: ModuleType) -> None:
    assert course.run_lesson(page).untrue == ""
