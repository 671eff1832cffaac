"""What the studio asks of a model beside its answer: what each layer would say, what each head does."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch

from regard.attention import BatchInvariant
from regard.errors import InputError
from regard.layers import Tokens
from regard.serving.looking import language_model_changes
from regard.serving.tokens import token_names
from regard.serving.writing import check_ids
from regard.tasks.language_modelling import LanguageModel

MOST_SAID = 2**27
"""Probabilities that a lens computes: layers by positions by tokens of the vocabulary."""


def lens(predictor: Any, given: Mapping[str, Any], interventions: Any) -> dict[str, Any]:
    """What a language model would say after each layer, from a place of a text on (`regard.inspection.analysis.LogitLens`).

    Arguments:
        predictor: the language model.
        given: `ids`, the text; `first`, the place from which on to tell; `top`, how many tokens of each layer.
        interventions: under which it reads.

    Raises:
        InputError: for a text that is too long, and a model without such layers.
    """
    from regard.inspection.analysis import LogitLens

    if not isinstance(predictor, LanguageModel):
        raise InputError("the lens is for language models; take one, or `regard lens` for others")
    model, tokenizer, ids = predictor.model, predictor.task.tokenizer, list(given["ids"])
    check_ids(tokenizer, ids)
    layers = getattr(model.config, "layers", 1) + 1
    if layers * len(ids) * model.config.vocabulary > MOST_SAID:
        most = MOST_SAID // (layers * model.config.vocabulary)
        raise InputError(f"the lens reads {most} tokens of this model at most, and the text has {len(ids)}; shorten it")
    named = token_names(tokenizer)
    changes = language_model_changes(model, interventions, given["prompt"], lambda source: _ids(predictor, source))
    read = Tokens.pad([ids])
    with torch.no_grad(), BatchInvariant(), changes() if interventions else nullcontext():
        found = LogitLens.of_run(model, lambda: model.prefill(read, model.start(1)), top=given["top"])
    first = given["first"]
    return {
        "addresses": list(found.addresses),
        "places": [
            [
                {
                    "top": [
                        {"label": named(int(index))[0], "probability": float(share)}
                        for index, share in zip(found.ids[n, place], found.probabilities[n, place], strict=True)
                    ],
                    "rank": int(found.rank[n, place]),
                    "entropy": float(found.entropy[n, place]),
                }
                for n in range(len(found.addresses))
            ]
            for place in range(first, len(ids))
        ],
    }


def _ids(predictor: LanguageModel, source: Any) -> list[int]:
    """The tokens of the `from` of a patch."""
    return list(predictor.task.prompted(predictor.task.tokenizer.encode(source))) if isinstance(source, str) else source
