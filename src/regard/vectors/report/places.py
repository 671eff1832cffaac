"""Where words lie: neighbours side by side, and maps."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from regard.errors import InputError
from regard.vectors.neighbours import neighbours
from regard.vectors.report.drawing import drawn_map
from regard.vectors.report.maps import METHODS, MapMethod, word_map
from regard.vectors.report.subject import Subject, names
from regard.vectors.report.tables import NOTHING, Cell, Row, Table

TITLES: Mapping[MapMethod, str] = {"pca": "PCA", "tsne": "t-SNE"}


def nearest_words(subjects: Sequence[Subject], words: Sequence[str], count: int = 8) -> Table:
    """The neighbours of some words in every embedding, those alone that one of them has."""
    rows = []
    for word in words:
        if any(subject.vectors.has(word) for subject in subjects):
            rows.append(Row(name=word, cells=tuple(_near(subject, word, count) for subject in subjects)))
    return Table(columns=names(subjects), rows=tuple(rows), corner="word")


def maps(subjects: Sequence[Subject], groups: Mapping[str, Sequence[str]], *, seed: int) -> str:
    """A map for each embedding of words in groups, by PCA and by t-SNE, the buttons above choosing.

    Arguments:
        groups: words by the name of their group.
        seed: of t-SNE.
    """
    colours = {word: number for number, words in enumerate(groups.values()) for word in words}
    drawn = [_maps_of(subject, colours, seed) for subject in subjects]
    if not any(drawn):
        return ""
    key = "".join(f'<li><i class="g{number % 10}"></i>{html.escape(name)}</li>' for number, name in enumerate(groups))
    buttons = "".join(f'<button type="button" value="{way}">{TITLES[way]}</button>' for way in METHODS)
    return (
        f'<ul class="key">{key}</ul><div><div class="choice" hidden>{buttons}</div>'
        f'<div class="side">{"".join(drawn)}</div></div>'
    )


def _near(subject: Subject, word: str, count: int) -> Cell:
    if not subject.vectors.has(word):
        return NOTHING
    return Cell(text=", ".join(each.word for each in neighbours(subject.vectors, word, count)))


def _maps_of(subject: Subject, colours: Mapping[str, int], seed: int) -> str:
    pictures = []
    for way in METHODS:
        try:
            shown = word_map(subject.vectors, tuple(colours), way, seed=seed)
        except (
            InputError
        ) as error:  # too few of the words, or no scikit-learn: the page says so in place of the picture
            pictures.append(f'<p class="quiet" data-shows="{way}">{html.escape(str(error))}</p>')
            continue
        kept = "" if shown.kept is None else f"; the plane holds {100 * shown.kept:.0f} % of their variance"
        title = f"{subject.name} by {TITLES[way]}: {len(shown.words)} words{kept}"
        picture = drawn_map(shown, colours, title=title)
        pictures.append(f'<figure data-shows="{way}"><h3>{html.escape(title)}</h3>{picture}</figure>')
    return f"<div>{''.join(pictures)}</div>"
