"""The report: every number on the page is one that was measured, words cannot break out of it, and nothing is fetched."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.bias import GENDER_PAIRS, audit, bias_subspace, cluster_test, hard_debiased
from regard.word_embeddings.evaluation.battery import Battery, evaluate
from regard.word_embeddings.evaluation.categories import CATEGORIES
from regard.word_embeddings.evaluation.similarity import JudgedPair, SimilaritySet
from regard.word_embeddings.report import Subject, html_page
from regard.word_embeddings.report.bias import direction
from regard.word_embeddings.report.figures import Cell, Row, Table, figure, table_html
from regard.word_embeddings.report.maps import Bar, WordMap, bars_svg, label_width, map_svg, word_map

WORDS = [word for words in CATEGORIES.values() for word in words]
ODD = ["<b>bold</b>", "</script>", '"quoted"', "{{title}}", "日本"]


class Reading(HTMLParser):
    """Which elements there are, and what addresses they name."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def read(page: str) -> Reading:
    reading = Reading()
    reading.feed(page)
    return reading


@pytest.fixture(scope="module")
def table():
    def make(name: str, seed: int) -> WordVectors:
        draw = np.random.default_rng(seed)
        words = [*WORDS, *ODD, *dict.fromkeys(word for pair in GENDER_PAIRS for word in pair if word not in WORDS)]
        return WordVectors(words=words, matrix=draw.normal(size=(len(words), 12)).astype(np.float32), name=name)

    return make


@pytest.fixture(scope="module")
def subjects(table):
    judged = SimilaritySet(name="judged", pairs=[JudgedPair(*WORDS[i : i + 2], score=i % 7) for i in range(0, 40, 2)])
    found = []
    for number, name in enumerate(("one", "<i>two</i>")):
        vectors = table(name, number)
        found.append(
            Subject(
                vectors=vectors,
                report=evaluate(vectors, Battery(similarity=[judged])),
                audit=audit(vectors, pairs=GENDER_PAIRS, occupations=CATEGORIES["professions"]),
            )
        )
    return found


def test_the_page_has_every_part_and_nothing_from_elsewhere(subjects):
    reading = read(html_page(subjects, words=["king", "dog", *ODD]))
    inside = [address for address in reading.addresses if address.startswith("#")]
    assert inside == reading.addresses
    assert len(inside) == reading.elements.count("section") == 8  # no analogies were asked
    assert reading.elements.count("script") == 1
    assert "i" in reading.elements  # the keys of the maps
    assert "b" not in reading.elements


def test_numbers_on_the_page_are_those_measured(subjects):
    page = html_page(subjects)
    for subject in subjects:
        assert f"{subject.report.similarity[0].spearman:.3f}" in page
        assert f"{subject.audit.direction.direct_bias:.3f}" in page
        assert f"{subject.report.categories[0].purity:.3f}" in page
        for caution in subject.audit.cautions:
            assert caution.replace("'", "&#x27;") in page


def test_words_and_names_stay_text(subjects):
    page = html_page(subjects, words=ODD, title="<u>title</u>")
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "&lt;i&gt;two&lt;/i&gt;" in page
    assert "u" not in read(page).elements
    assert "{{title}}" in page  # a word that reads like a place of the template


def test_a_page_without_an_audit_says_nothing_of_bias(subjects):
    alone = [Subject(vectors=subjects[0].vectors, report=subjects[0].report)]
    page = html_page(alone)
    assert 'id="bias"' not in page
    assert 'id="maps"' in page


def test_too_few_words_for_a_map_are_said_in_its_place():
    vectors = WordVectors(words=("dog", "cat", "sun"), matrix=np.eye(3, dtype=np.float32))
    page = html_page([Subject(vectors=vectors, report=evaluate(vectors, Battery()))])
    assert "a map needs at least 5" in page


def test_a_map_by_pca_is_the_shadow_on_the_first_two_components(table):
    vectors = table("v", 3)
    shown = word_map(vectors, [*WORDS[:30], "not there", WORDS[0]])
    assert shown.words == tuple(WORDS[:30])
    units = vectors.of(WORDS[:30]).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    centred = units - units.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    expected = centred @ axes[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(shown.places), np.abs(expected), atol=1e-6)
    assert shown.kept == pytest.approx(values[::-1][:2].sum() / values.sum())
    assert (shown.places[np.abs(shown.places).argmax(axis=0), [0, 1]] > 0).all()


def test_tsne_gives_the_same_map_twice_and_keeps_groups_together():
    pytest.importorskip("sklearn")
    draw = np.random.default_rng(1)
    centres = np.repeat(np.eye(3, 20) * 10, 8, axis=0)
    vectors = WordVectors(
        words=[f"w{i}" for i in range(24)], matrix=(centres + draw.normal(size=(24, 20))).astype(np.float32)
    )
    first, again = (word_map(vectors, vectors.words, "tsne", seed=4).places for _ in range(2))
    np.testing.assert_array_equal(first, again)
    distances = np.linalg.norm(first[:, None] - first[None], axis=-1) + np.eye(24) * 1e9
    assert (distances.argmin(axis=1) // 8 == np.arange(24) // 8).mean() > 0.9


def test_a_method_that_does_not_exist_is_refused(table):
    with pytest.raises(InputError, match="did you mean 'tsne'"):
        word_map(table("v", 1), WORDS, "tsn")


def test_every_word_of_a_map_has_a_dot_and_names_do_not_overlap(table):
    shown = word_map(table("v", 2), WORDS)
    drawn = map_svg(shown, {"dog": 1, "cat": 12}, title="a < b")
    assert drawn.count("<circle") == len(WORDS)
    assert 'class="g1"' in drawn
    assert 'class="g2"' in drawn  # colours come round again
    assert "a &lt; b" in drawn
    places = [
        tuple(map(float, found)) for found in re.findall(r'<text class="g\d?" x="([\d.-]+)" y="([\d.-]+)"', drawn)
    ]
    names = re.findall(r'<text class="g\d?"[^>]*>([^<]*)<', drawn)
    boxes = [(x, y, x + label_width(name), y + 12) for (x, y), name in zip(places, names, strict=True)]
    for one in range(len(boxes)):
        for other in range(one):
            a, b = boxes[one], boxes[other]
            assert a[2] <= b[0] + 0.2 or b[2] <= a[0] + 0.2 or a[3] <= b[1] + 0.2 or b[3] <= a[1] + 0.2


def test_bars_begin_at_zero_and_have_their_length(table):
    drawn = bars_svg(
        [Bar(name="up", value=0.5), Bar(name="down", value=-1.0), Bar(name="none", value=None)],
        low=-1,
        high=1,
        title="t",
    )
    widths = [float(found) for found in re.findall(r'<rect[^>]* width="([\d.]+)"', drawn)]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert drawn.count("<rect") == 2
    assert ">none<" in drawn


@pytest.mark.parametrize(
    ("numbers", "better", "best"),
    [((0.1, 0.3), True, "0.300"), ((0.1, 0.3), False, "0.100"), ((0.3, 0.3), True, None), ((0.1, None), True, None)],
)
def test_the_best_of_a_row_is_set_off_where_one_is_best(numbers, better, best):
    row = Row(name="r", cells=tuple(figure(number) for number in numbers), larger_is_better=better)
    page = table_html(Table(columns=("a", "b"), rows=(row, Row(name="s", cells=(Cell(text="x"), Cell(text="y"))))))
    assert re.findall(r"<td class=best[^>]*>([^<]*)", page) == ([] if best is None else [best])


def test_what_rounding_leaves_after_debiasing_is_not_drawn_as_bias(subjects):
    """All embeddings of a page have one scale, and none is stretched to fill it."""
    subject = subjects[0]
    found = subject.audit.direction
    quiet = [each._replace(cosine=each.cosine * 1e-6) for each in found.occupations]
    changed = dataclasses.replace(subject.audit, direction=dataclasses.replace(found, occupations=quiet))
    debiased = Subject(vectors=subject.vectors, report=subject.report, audit=changed)
    for page in ([subject, debiased], [debiased]):
        drawn = direction(page).split("<h3>")[-1]
        widths = [
            float(width) for width in re.findall(r'<rect class="(?:positive|negative)" [^>]* width="([\d.]+)"', drawn)
        ]
        assert len(widths) > 5
        assert max(widths) <= 0.5  # the least that is drawn


def test_labels_of_wide_letters_are_inside_the_drawing():
    """Widths as a browser gives them in DejaVu Sans at 11 pixels: M 9.5, W 10.9, m 10.7 and O 8.7."""
    bars = bars_svg([Bar(name="MWMWMWMW", value=0.3)], low=-1, high=1, title="t")
    end = float(re.search(r'<text class="name" x="([\d.]+)"', bars)[1])
    assert end >= 4 * 9.5 + 4 * 10.9
    places = np.array([[0.0, 0.0], [1.0, 1.0]])
    shown = map_svg(WordMap(words=("a", "OOOOOOOOmm"), places=places, method="pca", kept=None), {})
    left = float(re.search(r'<text class="g" x="([\d.]+)" y="[\d.]+">OOOO', shown)[1])
    assert left + 8 * 8.7 + 2 * 10.7 <= 560
    assert "…" in bars_svg([Bar(name="W" * 40, value=0.3)], low=-1, high=1, title="t")


def test_a_page_with_vectors_before_and_after_debiasing_tells_the_clusters_left(table, subjects):
    before = table("before", 3)
    subspace = bias_subspace(before, GENDER_PAIRS)
    kept = [word for pair in GENDER_PAIRS for word in pair]
    after = dataclasses.replace(hard_debiased(before, subspace, specific=kept), name="after")
    asked = {"pairs": GENDER_PAIRS, "occupations": CATEGORIES["professions"]}

    def subject(vectors: WordVectors) -> Subject:
        return dataclasses.replace(subjects[0], vectors=vectors, audit=audit(vectors, **asked))

    both = direction([subject(before), subject(after)])
    assert "Clusters after debiasing" in both
    found, left = (cluster_test(each, before, subspace, leave_out=kept) for each in (before, after))
    assert f"{found.accuracy:.3f}<small>{2 * found.count} words" in both
    assert f"{left.accuracy:.3f}<small>{2 * left.count} words" in both
    assert "unknown without the vectors before debiasing" in direction([subject(after)])
    assert "Clusters after debiasing" not in direction([subject(before)])
    assert "Zero is not a neutral" in both
