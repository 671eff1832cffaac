"""A report on word embeddings as one HTML page that needs nothing besides itself."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from regard import __version__
from regard.web import page
from regard.word_embeddings.evaluation.categories import CATEGORIES
from regard.word_embeddings.report import bias, figures, maps
from regard.word_embeddings.report.figures import Subject, Table, drawn_table

WORDS = ("king", "woman", "city", "car", "music", "red", "good", "run", "small", "war", "science", "bank")
"""Whose neighbours are on the page unless others are asked for."""

TOLD = {
    "what": "What is compared",
    "similarity": "Similarity",
    "analogies": "Analogies",
    "groups": "Categories and intruders",
    "variants": "Variants of words",
    "probes": "Pairs of pairs, and frequency",
    "neighbours": "Neighbours",
    "maps": "Maps",
    "bias": "Bias",
}


def html_page(
    subjects: Sequence[Subject],
    *,
    title: str = "Vectors of words",
    words: Sequence[str] = WORDS,
    groups: Mapping[str, Sequence[str]] = CATEGORIES,
    seed: int = 1,
) -> str:
    """The page: tables, neighbours, maps and bias, the embeddings side by side. One file without any link to another.

    Arguments:
        subjects: the embeddings, with what was found of them.
        title: of the page.
        words: whose neighbours are listed.
        groups: words by the name of their group, for the maps.
        seed: of t-SNE.
    """
    from markupsafe import Markup

    # The parts escape the words they show as they are made.
    sections = [(name, TOLD[name], Markup(made)) for name, made in _sections(subjects, words, groups, seed) if made]
    parts = {"title": title, "sections": sections, "version": __version__}
    return page("report", parts, styles=("report.css",))


def _sections(
    subjects: Sequence[Subject], words: Sequence[str], groups: Mapping[str, Sequence[str]], seed: int
) -> Iterator[tuple[str, str]]:
    yield "what", drawn_table(figures.overview(subjects))
    yield (
        "similarity",
        _with(
            "How far cosines rank pairs of words as people do. Small letters: the 95 % bootstrap interval over pairs, and "
            "the number of pairs with vectors; scores over different pairs are not comparable.",
            figures.similarity(subjects),
        ),
    )
    sets = [f"<h3>{html.escape(name)}</h3>{drawn_table(table)}" for name, table in figures.analogies(subjects)]
    yield "analogies", _told("a is to b as c is to d, the three words left out of the answers.", "".join(sets))
    yield (
        "groups",
        _with(
            "k-means on words of known categories: the share that is in a cluster of its kind. And of two neighbours, their "
            "word "
            "and a stranger of like frequency: how often the stranger is found, where guessing finds a quarter.",
            figures.categories(subjects),
        ),
    )
    yield (
        "variants",
        _with(
            "Words with a slip of the pen, in the plural, in capitals, or spelt otherwise.",
            figures.robustness(subjects),
        ),
    )
    yield "probes", _with("Cosines of two pairs, and which is nearer.", figures.probes(subjects))
    yield "neighbours", drawn_table(maps.nearest_words(subjects, words))
    yield (
        "maps",
        _told(
            "By PCA distances are shadows of what they are. By t-SNE who is near to whom is kept, and nothing else: sizes of "
            "groups, and distances between them, mean nothing.",
            maps.drawn_maps(subjects, groups, seed=seed),
        ),
    )
    found = bias.direction(subjects) + bias.associations(subjects)
    yield "bias", found + bias.cautions(subjects) if found else ""


def _with(sentence: str, table: Table | None) -> str:
    return _told(sentence, "" if table is None else drawn_table(table))


def _told(sentence: str, content: str) -> str:
    return f"<p>{html.escape(sentence)}</p>{content}" if content else ""
