"""Both attentions of a hierarchical network as one: what each word counts for its document, and the text with its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from regard.inspection.terminal import colour_of
from regard.inspection.view import AttentionMap, AttentionView, visible
from regard.inspection.words import token_texts

WORDS, SENTENCES, BOTH = "words.attention", "sentences.attention", "document"
"""The addresses of the two attentions, and what both together are called."""

STRONGEST = 3
"""Words named behind each sentence."""


def is_document(view: AttentionView) -> bool:
    """Whether a view has both attentions of a hierarchical network."""
    return {WORDS, SENTENCES} <= set(view.addresses)


def with_shares(view: AttentionView) -> AttentionView:
    """The view with one more map for each example: the share that each word has in the vector of its document.

        share_it = a_i a_it,   a_i the weight of sentence i, a_it that of its t-th word         (Yang et al. 2016, section 3.6)

    The shares of a document sum to one.
    """
    maps: list[AttentionMap] = []
    for number in range(len(view.examples)):
        words, sentences = view.map(WORDS, number), view.map(SENTENCES, number)
        shares = sentences.weights[0] @ words.weights[0]  # (1, S) and (S, L)
        maps.append(replace(words, address=BOTH, query_tokens=("document",), query_words=None, weights=shares[None]))
    return replace(view, maps=(*maps, *view.maps))


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document sentence by sentence, with the weight of each, its words coloured by theirs; to be printed by rich.

    Arguments:
        view: with both attentions.
        example: which document.
    """

    view: AttentionView
    example: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A line for each sentence, longer ones folded: its weight, its words, and the strongest of them with their weights."""
        words = self.view.map(WORDS, self.example)
        sentences = self.view.map(SENTENCES, self.example).weights[0, 0]
        coloured = console.color_system is not None and not console.no_color
        for number, weight in enumerate(sentences[: len(words.query_tokens)]):
            yield from _sentence(float(weight), words.weights[0, number], words, coloured, options.max_width)


def _sentence(weight: float, own: np.ndarray, words: AttentionMap, coloured: bool, width: int) -> Iterator[Segment]:
    places = np.flatnonzero(own).tolist()
    texts = token_texts(words.key_tokens)
    label = f"{weight:5.3f}  "
    yield Segment(label, Style(bold=True))
    column = len(label)
    for place in places:
        glued = (
            place != places[0] and words.key_words is not None and words.key_words[place] == words.key_words[place - 1]
        )
        text = _bare(texts[place], glued=glued)
        space = "" if glued or place == places[0] else " "
        if column + len(space) + len(text) > width and column > len(label):
            yield Segment("\n" + " " * len(label))
            column, space = len(label), ""
        yield Segment(space)
        yield Segment(text, Style(bgcolor=colour_of(float(own[place] / own.max()), signed=False)) if coloured else None)
        column += len(space) + len(text)
    strongest = sorted(places, key=lambda place: -own[place])[:STRONGEST]
    named = ", ".join(f"{_bare(texts[place], glued=False)} {own[place]:.2f}" for place in strongest)
    yield Segment("\n" + " " * len(label) + named + "\n", Style(dim=True))


def _bare(token: str, *, glued: bool) -> str:
    """A token's text as it is printed, without the space that a word begins with or the mark that it goes on with."""
    return visible(token.removeprefix(" ") or token).removeprefix("##" if glued else "")
