"""The folder of a model of whole texts opened to look inside it, whatever it is for and whoever wrote it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import nn

from regard.checkpoints import read_config, read_model
from regard.errors import InputError
from regard.inspection.choosing import attention_addresses, chosen_mechanisms
from regard.inspection.document import is_document, with_shares
from regard.inspection.look import look
from regard.inspection.view import AttentionView
from regard.layers import TextEncoder, Tokens, VectorReader
from regard.models import MODELS, ELMo
from regard.tasks.encoders import foreign_tokenizer, join, padded, tokens_of
from regard.tasks.loading import model_folder
from regard.text import Tokenizer

MARKED = ("masked", "pretraining")
"""The heads of models that were trained to tell what stands at `[MASK]`."""


@dataclass(frozen=True, slots=True, eq=False)
class TextReader:
    """A model of whole texts and its tokenizer, without a task: enough to see what it looks at.

    Arguments:
        model: an encoder, a decoder with a head, a model of text vectors, an ELMo or a model of the user's own that is called as
            one of these, in evaluation mode.
        tokenizer: for both texts.
    """

    model: nn.Module
    tokenizer: Tokenizer

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The encoder in a folder, or of `hub:owner/name`, with or without a head.

        Raises:
            InputError: where there is none, or it has no tokenizer beside it.
        """
        place: Path = model_folder(folder)
        config = read_config(place)
        if not MODELS[config.model_type].serves("whole_text"):
            raise InputError(
                f"{folder}: a {config.model_type} does not read texts as a whole; give a bert or a distilbert"
            )
        tokenizer = foreign_tokenizer(place, config)
        return cls(read_model(place), tokenizer)

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
        if isinstance(self.model, VectorReader) or self._interface == "text_vectors":
            return _side_by_side([self._alone(self.model, each, addresses) for each in texts])
        encoded = [self._ids(each) for each in texts]
        joined = join(self.tokenizer, *encoded, maximum=sum(map(len, encoded)) + len(encoded) + 1)
        tokens, segments = padded([joined], padding_id=self.tokenizer.padding_id)
        with torch.no_grad(), look(self.model, addresses) as seen:
            self.model(tokens, segments)
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
