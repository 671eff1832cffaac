"""The figures of two papers as tabs: a document with its sentences' bars (HAN), and a memory over time (NTM)."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.browser.conftest import served, wait_for
from tests.serving.test_attention import InProcess

import regard
from regard.inspection.memory import copied_view, memory_trace
from regard.inspection.text_reader import TextReader
from regard.inspection.view import SENTENCES, WORDS, AttentionView
from regard.models import HAN, HANConfig
from regard.tasks.classification import ClassificationTask, Classifier
from regard.text import Tokenizer

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"
TEXT, BITS = "w1 good1 w3 w4. Indeed w2 bad3 w5.\n\nw6 w7", "10 01 11"
SHADES = """VIEWS.document.lines.flatMap((line) =>
  line.words.map(({ place }) => [line.row, place, VIEWS.document.describe(line.row, place).share]))"""


def reader() -> Classifier:
    """A hierarchical network that nobody trained."""
    torch.manual_seed(5)
    tokenizer = Tokenizer.train([TEXT], kind="word", size=40, lowercase=True)
    task = ClassificationTask(tokenizer=tokenizer, classes=("no", "yes"), pairs=False, sentences=True)
    sizes = {"embedding_width": 8, "hidden_width": 4, "attention_width": 6}
    config = HANConfig(**task.model_settings(), **task.settings_of_some(), **sizes)
    model = HAN(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # else every word counts nearly the same
    return Classifier(model.eval(), task)


@pytest.fixture(scope="module")
def document() -> AttentionView:
    model = reader()
    return TextReader(model.model, model.task.tokenizer).view(TEXT)


def saved(page: Any, kind: str) -> bytes:
    with page.expect_download() as found:
        page.click(f"#save-{kind}")
    return Path(found.value.path()).read_bytes()


def colour_under(page: Any, box: str) -> list[int]:
    """The pixel at the lower left of a box of the figure, in its own coordinates, where no letter stands."""
    return page.evaluate(
        f"""(() => {{
          const box = {box}, density = canvas.width / canvas.clientWidth, pen = canvas.getContext("2d");
          return [...pen.getImageData((box.x + 2) * density, (box.y + box.height - 5) * density, 1, 1).data].slice(0, 3);
        }})()"""
    )


def test_a_document_has_a_line_for_each_sentence_shaded_as_in_the_paper(visit, until, module, document):
    page = visit(document)
    assert page.evaluate("[state.view, canvas.getAttribute('aria-roledescription')]") == [
        "document",
        "sentences and their words",
    ]
    words, sentences = document.map(WORDS).weights[0], document.map(SENTENCES).weights[0, 0]
    own = np.sqrt(sentences)[:, None] * words
    shades = page.evaluate(SHADES)
    assert {(row, place) for row, place, _ in shades} == {(int(row), int(place)) for row, place in np.argwhere(words)}
    assert all(float(share) == pytest.approx(own[row, place], rel=5e-3) for row, place, share in shades)
    # The colour of a word is that of its share, in the one convention of sizes.
    module(page, "colours.js")
    row, place, share = max(shades, key=lambda each: -float(each[2]))
    box = f"({{ ...VIEWS.document.lines[{row}].words.find((one) => one.place === {place}), height: VIEWS.document.line }})"
    wanted = page.evaluate(f"colourOf(false, {float(share)}, {float(own.max())})")
    assert np.abs(np.array(colour_under(page, box)) - wanted).max() <= 3
    bars = page.evaluate(
        "VIEWS.document.lines.map(({ row }) => VIEWS.document.describe(row, VIEWS.document.first(row)).sentence)"
    )
    assert [float(bar.split()[1]) for bar in bars] == pytest.approx(sentences.tolist(), abs=1e-3)


def test_a_document_is_walked_by_keys_told_by_the_pointer_and_saved(visit, until, document):
    page = visit(document)
    page.focus("#figure")
    page.keyboard.press("Home")
    assert page.evaluate("[state.row, state.column]") == [0, page.evaluate("VIEWS.document.lines[0].words[0].place")]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("state.column === VIEWS.document.lines[0].words[1].place")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("[state.row, state.column === VIEWS.document.first(1)]") == [1, True]
    assert page.inner_text("#readout").startswith("\u2068")
    until(page, "location.hash.includes('view=document') && location.hash.includes('query=1')")
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    title = page.inner_text("#strongest-title")
    assert "weight" in title
    assert page.locator("#strongest-body tr").count() > 1
    box = page.evaluate("({ ...VIEWS.document.lines[0].words[0] })")
    page.hover("#figure", position={"x": box["x"] + 3, "y": box["y"] + 8})
    assert "of its sentence" in page.inner_text("#tip")
    assert "shade" in page.inner_text("#tip")
    page.hover("#figure", position={"x": 8, "y": box["y"] + 8})
    assert "weight" in page.inner_text("#tip")
    rows = list(csv.reader(io.StringIO(saved(page, "csv").decode("utf-8-sig"))))
    assert rows[0] == ["sentence", "weight of the sentence", "token", "weight of the token", "shade"]
    weights = document.map(WORDS).weights[0]
    assert len(rows) == 1 + np.count_nonzero(weights)
    for _, sentence, _, word, shade in rows[1:]:
        assert float(shade) == pytest.approx(float(sentence) ** 0.5 * float(word), rel=1e-4)
    assert json.loads(saved(page, "json"))["rows"][0][2] == rows[1][2]
    assert rows[1][2] in saved(page, "svg").decode()
    assert saved(page, "png").startswith(b"\x89PNG")
    # Its layers stand in the other tabs, and it comes back from them.
    page.click("#tab-heatmap")
    page.select_option("#address", SENTENCES)
    page.keyboard.press("5")
    until(page, "state.view === 'document'")
    assert page.evaluate("[state.map.address, document.querySelector('#address-label').hidden]") == [WORDS, True]


def test_a_memory_is_the_figure_of_its_paper_over_time(visit, until):
    copier = regard.load(FOLDERS / "ntm")
    trace, page = memory_trace(copier, BITS), visit(copied_view(copier, BITS))
    assert page.evaluate("state.view") == "memory"
    names = ["inputs", "outputs", "added to the memory", "read", "write weights", "read weights"]
    assert page.evaluate("VIEWS.memory.panels.map(({ track }) => track.name)") == names
    values = page.evaluate("VIEWS.memory.panels.map(({ track }) => track.values)")
    np.testing.assert_allclose(values[2], trace.added[0], rtol=1e-6)
    np.testing.assert_allclose(values[5], trace.read_weights[0], rtol=1e-6)
    assert values[1][:4] == [[None, None]] * 4  # nobody asked
    page.focus("#figure")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("VIEWS.memory.panel") == 5  # it begins with what was read last
    for key in ("PageUp", "PageUp", "PageUp", *["ArrowUp"] * 5, "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("[state.row, VIEWS.memory.panel, VIEWS.memory.entry]") == [1, 2, 1]
    said = page.inner_text("#readout")
    assert said.startswith("added to the memory: ")
    assert "step 1; entry 1" in said
    assert float(said.split()[4]) == pytest.approx(trace.added[0, 1, 1], rel=1e-5)
    panel = page.evaluate("({ ...VIEWS.memory.panels[5] })")
    page.hover("#figure", position={"x": panel["x"] + 2.5 * panel["cell"], "y": panel["y"] + 0.5 * panel["high"]})
    tip = page.inner_text("#tip")
    assert tip.startswith("read weights: ")
    assert "slot 1" in tip
    assert float(tip.split()[2]) == pytest.approx(trace.read_weights[0, 2, 0], rel=1e-5)
    rows = list(csv.reader(io.StringIO(saved(page, "csv").decode("utf-8-sig"))))
    assert rows[0][2:] == [step.replace(" ", "␣") for step in trace.steps]
    (first,) = [row for row in rows if row[:2] == ["write weights", "1"]]
    np.testing.assert_allclose([float(value) for value in first[2:]], trace.write_weights[0, :, 0], rtol=1e-5)
    assert "read weights" in saved(page, "svg").decode()
    for width in (390, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        until(page, "VIEWS.memory.panels[5].x > 0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_studio_shows_both_and_follows_what_is_typed(opened):
    models = {"han": reader(), "ntm": regard.load(FOLDERS / "ntm")}
    with served(link=InProcess(**models)) as address:
        page = opened(f"{address}/studio#token=secret&model=han&text=w1+w2.+Indeed+w3.")
        assert page.evaluate("regard.state.view") == "document"
        assert page.locator("#transport").is_hidden()  # nothing is written token by token
        page.fill("#reads", TEXT)
        wait_for(page, "regard.VIEWS.document.lines.length === 3")
        page.select_option("#model", "ntm")
        page.fill("#reads", "10 01")
        wait_for(page, "regard.data.tracks?.length === 6 && !document.querySelector('#answer').hidden")
        assert len(page.inner_text("#answer-text").split()) == 2
        page.click("#tab-memory")
        wait_for(page, "regard.state.view === 'memory' && regard.VIEWS.memory.panels.length === 6")
        page.click("#switch-off")
        wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
        page.fill("#reads", "102")
        wait_for(page, "document.querySelector('#problem').textContent.includes('zeros and ones')")
