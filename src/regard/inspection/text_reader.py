"""A folder of a model of whole texts, opened to look inside it, whatever its task and whichever program wrote it.

Of a hierarchical network both attentions are shown as one: what each word counts for its document.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from torch import nn

from regard.checkpoints import read_config, read_model
from regard.checkpoints.folder import CARD
from regard.errors import InputError
from regard.inspection.hooks.interception import attention_addresses, chosen_mechanisms
from regard.inspection.record import look
from regard.inspection.terminal import colour_of
from regard.inspection.view import SENTENCES, WORDS, AttentionMap, AttentionView
from regard.inspection.words import token_texts, visible
from regard.layers import SentenceEncoderModel, TextEncoder, Tokens
from regard.models import MODELS, ELMo
from regard.tasks.encoders import join, padded, tokenizer_from_hf, tokens_of
from regard.tasks.loading import load, model_folder
from regard.text import Tokenizer

BOTH = "document"
"""What both attentions of a hierarchical network are called together."""

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
    """A token's text as it is printed, without the space that a word begins with or the mark that it continues."""
    return visible(token.removeprefix(" ") or token).removeprefix("##" if glued else "")


MARKED = ("masked", "pretraining")
"""The heads of models that were trained to tell what is at `[MASK]`."""


@dataclass(frozen=True, slots=True, eq=False)
class TextReader:
    """A model of whole texts and its tokenizer, without a task: enough to see what it looks at.

    Arguments:
        model: an encoder, a decoder with a head, a model of text vectors or an ELMo, of this package or registered with
            `regard.parts.model`; or any other torch module, which is called with the token ids alone, (1, L) int64. In
            evaluation mode.
        tokenizer: for both texts.

    >>> from regard.text import Tokenizer
    >>> class Own(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.table = nn.Embedding(30, 8)
    ...         self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
    ...
    ...     def forward(self, ids):
    ...         x = self.table(ids)
    ...         return self.attention(x, x, x)[0]
    >>> tokenizer = Tokenizer.train(["a cat sat"], kind="bert", size=30)
    >>> TextReader(Own().eval(), tokenizer).view("a cat").maps[0].key_tokens
    ('[CLS]', 'a', 'c', '##at', '[SEP]')
    """

    model: nn.Module
    tokenizer: Tokenizer

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The encoder in a folder, or of `hub:owner/name`, with or without a head.

        Raises:
            InputError: where there is none, or it has no tokenizer in it.
        """
        place: Path = model_folder(folder)
        config = read_config(place)
        if not MODELS[config.model_type].serves("whole_text"):
            raise InputError(
                f"{folder}: a {config.model_type} does not read texts as a whole; give an encoder such as a bert or a roberta"
            )
        if (place / CARD).is_file():  # ours: the task knows what its texts are between, whatever tokenizer.json says
            predictor: Any = load(place)
            return cls(predictor.model, predictor.task.tokenizer)
        return cls(read_model(place), tokenizer_from_hf(place, config))

    def view(self, text: str, second: str | None = None, *, addresses: Sequence[str] | None = None) -> AttentionView:
        """The attention of every layer, or of some, while the model reads one text or two.

        Arguments:
            text: a `[MASK]` in it is one where the model was trained on them.
            second: read behind the first, as its own segment; a model that makes a vector of each text reads it by itself.
            addresses: of layers, with `*` for any part of a name.

        Raises:
            InputError: for texts of more tokens than the model has positions, an address that no layer has, and a model without
                attention.
        """
        texts = [text] if second is None else [text, second]
        if isinstance(self.model, ELMo):
            raise InputError(
                'an ELMo has no attention to look at; regard.look(model, hidden=["layers.*"]) keeps its layers'
            )
        if isinstance(self.model, SentenceEncoderModel) or self._interface == "text_vectors":
            return _side_by_side([self._alone(self.model, each, addresses) for each in texts])
        encoded = [self._ids(each) for each in texts]
        joined = join(self.tokenizer, *encoded, maximum=sum(map(len, encoded)) + len(encoded) + 1)
        tokens, segments = padded([joined], padding_id=self.tokenizer.padding_id)
        with torch.no_grad(), look(self.model, addresses) as seen:
            self.model(tokens, segments) if self._interface else self.model(tokens.ids)
        title = " | ".join(texts)
        view = seen.view(0, addresses=addresses and list(seen.runs[-1].calls), tokens=self.tokenizer.tokens(joined.ids))
        return replace(view, title=title, examples=(title,))

    @property
    def _interface(self) -> str:
        family = MODELS.get(getattr(getattr(self.model, "config", None), "model_type", ""))
        return "" if family is None else family.interface

    def _alone(self, model: nn.Module, text: str, addresses: Sequence[str] | None) -> AttentionView:
        """The maps of a model that reads each text by itself, and of a hierarchical one what both attentions come to."""
        wanted = chosen_mechanisms(attention_addresses(model), addresses, ())
        parted = MODELS[model.config.model_type].sentences  # type: ignore[attr-defined]
        (ids,) = tokens_of(self.tokenizer, [text], sentences=parted)
        joined = join(self.tokenizer, ids, maximum=len(ids) + 2)
        with torch.no_grad(), look(model) as seen:
            model(Tokens.pad([joined.ids], padding_id=self.tokenizer.padding_id))
        view = replace(seen.view(0, tokens=self.tokenizer.tokens(joined.ids)), title=text, examples=(text,))
        if addresses is not None:
            return replace(view, maps=tuple(item for item in view.maps if item.address in wanted))
        return with_shares(view) if is_document(view) else view

    def _ids(self, text: str) -> list[int]:
        mask = self.tokenizer.mask_id
        if mask is None or not isinstance(self.model, TextEncoder) or self.model.config.head not in MARKED:
            return self.tokenizer.encode(text)
        return self.tokenizer.encode_marked(text, self.tokenizer.tokens([mask]))


def _side_by_side(views: Sequence[AttentionView]) -> AttentionView:
    """Views of one text each as one view, a text an example."""
    if len(views) == 1:
        return views[0]
    titles = tuple(view.title for view in views)
    maps = [replace(item, example=number) for number, view in enumerate(views) for item in view.maps]
    return AttentionView(title=" | ".join(titles), maps=tuple(maps), examples=titles)
