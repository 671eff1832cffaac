"""A report on word embeddings as one self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from regard import __version__
from regard.web import page
from regard.word_embeddings.evaluation.categories import CATEGORIES
from regard.word_embeddings.report import bias, figures, maps
from regard.word_embeddings.report.figures import Subject, Table, table_html

WORDS = ("king", "woman", "city", "car", "music", "red", "good", "run", "small", "war", "science", "bank")
"""The words whose neighbours are listed by default."""

HEADINGS = {
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
    title: str = "Word embeddings",
    words: Sequence[str] = WORDS,
    groups: Mapping[str, Sequence[str]] = CATEGORIES,
    seed: int = 1,
) -> str:
    """The report as an HTML page without links to other files: tables, neighbours, maps and bias of several embeddings.

    Arguments:
        subjects: the embeddings with their results.
        title: the title of the page.
        words: the words whose neighbours are listed.
        groups: the words of the maps, by group name.
        seed: seed of t-SNE.
    """
    from markupsafe import Markup

    # The sections are already escaped.
    sections = [(name, HEADINGS[name], Markup(made)) for name, made in _sections(subjects, words, groups, seed) if made]
    parts = {"title": title, "sections": sections, "version": __version__}
    return page("report", parts, styles=("report.css",))


def _sections(
    subjects: Sequence[Subject], words: Sequence[str], groups: Mapping[str, Sequence[str]], seed: int
) -> Iterator[tuple[str, str]]:
    yield "what", table_html(figures.overview(subjects))
    yield (
        "similarity",
        _with_table(
            "Spearman's correlation of cosines with human similarity scores of word pairs. In small print: the 95 % bootstrap "
            "interval over pairs, and the number of pairs with vectors; scores over different pairs are not comparable.",
            figures.similarity(subjects),
        ),
    )
    sets = [f"<h3>{html.escape(name)}</h3>{table_html(table)}" for name, table in figures.analogies(subjects)]
    yield (
        "analogies",
        _with_sentence("a is to b as c is to d; the three given words are not allowed as answers.", "".join(sets)),
    )
    yield (
        "groups",
        _with_table(
            "Purity: words of known categories are clustered by k-means; the share of words in a cluster of their category. "
            "Intruders: among a word, its two nearest neighbours and an unrelated word of similar frequency, how often the "
            "unrelated word is found; guessing finds a quarter.",
            figures.categories(subjects),
        ),
    )
    yield (
        "variants",
        _with_table(
            "Words with a typo, in the plural, in capitals, or in British spelling.",
            figures.robustness(subjects),
        ),
    )
    yield "probes", _with_table("Cosines of two word pairs, and which pair is closer.", figures.probes(subjects))
    yield "neighbours", table_html(maps.nearest_words(subjects, words))
    yield (
        "maps",
        _with_sentence(
            "PCA is a projection: distances on the map are at most the real ones. t-SNE only preserves which words are close "
            "to each other; the sizes of groups and the distances between them have no meaning.",
            maps.maps_html(subjects, groups, seed=seed),
        ),
    )
    found = bias.direction(subjects) + bias.associations(subjects)
    yield "bias", found + bias.cautions(subjects) if found else ""


def _with_table(sentence: str, table: Table | None) -> str:
    return _with_sentence(sentence, "" if table is None else table_html(table))


def _with_sentence(sentence: str, content: str) -> str:
    return f"<p>{html.escape(sentence)}</p>{content}" if content else ""
