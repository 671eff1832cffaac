"""Further requests of the studio: the logit lens, the tree of a beam search, the effect of each head on the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.attention import BatchInvariant
from regard.errors import InputError
from regard.generation import search
from regard.inspection.memory import numbers_of, vectors_in
from regard.layers import Images, Tokens
from regard.serving.looking import language_model_changes, task_changes
from regard.serving.tasks import image_of
from regard.serving.tokens import token_names
from regard.serving.writing import check_ids
from regard.tasks.images import frames_of
from regard.tasks.language_modelling import LanguageModel

if TYPE_CHECKING:
    from regard.tasks.captioning import Captioner
    from regard.tasks.copying import Copier

MOST_PROBABILITIES = 2**27
"""The most probabilities that a lens computes: layers times positions times the vocabulary's size."""


def lens(predictor: Any, given: Mapping[str, Any], interventions: Any) -> dict[str, Any]:
    """The logit lens of a language model on a text (`regard.inspection.analysis.LogitLens`).

    Arguments:
        predictor: the language model.
        given: `ids`, the text's tokens; `prompt`, how many of them are the prompt; `first`, the first position to return; `top`,
            how many tokens to return for each layer and position.
        interventions: how the model is changed meanwhile.

    Returns:
        `addresses` of the layers; `places`, for each position from `first` on a list over the layers, each with the `top` tokens
        and their probabilities, the `rank` of the next token and the `entropy`.

    Raises:
        InputError: for a text that is too long, and for a model without such layers.
    """
    from regard.inspection.analysis import LogitLens

    if not isinstance(predictor, LanguageModel):
        raise InputError("the lens is for language models; choose one, or use `regard lens` for other models")
    model, tokenizer, ids = predictor.model, predictor.task.tokenizer, list(given["ids"])
    check_ids(tokenizer, ids)
    layers = getattr(model.config, "layers", 1) + 1
    if layers * len(ids) * model.config.vocabulary > MOST_PROBABILITIES:
        most = MOST_PROBABILITIES // (layers * model.config.vocabulary)
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


def beam(predictor: Any, route: Any, request: Any) -> dict[str, Any]:
    """The tree of a beam search while the model answers (`regard.generation.BeamTree`), with the text of each token.

    Arguments:
        predictor: the model.
        route: of its task.
        request: to that route.

    Returns:
        `tried`, the tokens that were tried; `hypotheses`, the texts that were returned, with log-probabilities and scores.

    Raises:
        InputError: for a model that generates no text.
    """
    from regard.generation import BeamTree

    sides = getattr(predictor.task, "sides", None)
    tokenizer = sides[1] if sides is not None else getattr(predictor.task, "tokenizer", None)
    tree = BeamTree()
    with (
        task_changes(predictor, route, request)() if request.interventions else nullcontext(),
        predictor.observing(tree),
    ):
        route.answer(predictor, request)
    if tokenizer is None or not tree.hypotheses:
        raise InputError("the model generates no text, so there is no search; choose a translator or a captioner")
    named = token_names(tokenizer)
    return {
        "tried": [
            {
                "step": each.step,
                "parent": each.parent,
                "label": named(each.token)[0],
                "log_probability": each.log_probability,
                "fate": each.fate,
            }
            for each in tree.tried
        ],
        "hypotheses": [
            {
                "place": tree.place_of(each),
                "text": tokenizer.decode(each.tokens),
                "log_probability": each.log_probability,
                "score": each.score,
            }
            for each in tree.hypotheses
        ],
    }


def effects(predictor: Any, route: Any, request: Any, address: str) -> dict[str, Any]:
    """The effect of ablating each head of a layer on the score of the answer (`regard.inspection.ablate`).

    Arguments:
        predictor: the model.
        route: of its task; None for a language model.
        request: to that route; for a language model (token ids, interventions).
        address: of the attention layer.

    Returns:
        `about`, what the score is; `baseline`, the score of the unchanged model; `rows`, a score and effect for each head.

    Raises:
        InputError: for an unknown layer, and for an answer without a score.
    """
    from regard.inspection import ablate

    if route is None:
        ids, interventions = request
        changes = language_model_changes(
            predictor.model, interventions, len(ids), lambda source: _ids(predictor, source)
        )
    else:
        interventions = request.interventions
        changes = task_changes(predictor, route, request)
    with torch.no_grad(), changes() if interventions else nullcontext():
        about, score = _next_token(predictor, request[0]) if route is None else _answer(predictor, request)

        def again() -> float:
            changes.restart()
            return score()

        found = ablate(predictor, again, [address])
    return {
        "about": about,
        "baseline": found.baseline,
        "rows": [
            {"address": row.address, "head": row.part, "score": row.score, "effect": row.effect} for row in found.rows
        ],
    }


def _next_token(predictor: LanguageModel, ids: Sequence[int]) -> tuple[str, Callable[[], float]]:
    """The most probable next token, and a function that computes its log-probability."""
    check_ids(predictor.task.tokenizer, ids)
    model, tokens = predictor.model, Tokens.pad([list(ids)])

    def logs() -> torch.Tensor:
        return model.read(tokens, model.start(1))[0][0, -1].float().log_softmax(dim=-1)

    best = int(logs().argmax())
    named = token_names(predictor.task.tokenizer)
    return f"log p({named(best)[0]})", lambda: logs()[best].item()


def _answer(predictor: Any, request: Any) -> tuple[str, Callable[[], float]]:
    """The name of the answer's score, and a function that computes it: a log-probability (natural log) for most tasks."""
    from regard.inspection.analysis import SCORES

    name, inputs = predictor.task.name, request.inputs
    if name == "sentence_embedding":
        own = predictor.embed([inputs])[0]

        def likeness() -> float:
            now = predictor.embed([inputs])[0]
            return float(own @ now / (np.linalg.norm(own) * np.linalg.norm(now)))

        return "cosine to the embedding without it", likeness
    if name == "image_classification":
        pixels = image_of(request, predictor.task.size.channels)
        shares = predictor.classify(pixels).probabilities
        label = max(shares, key=shares.__getitem__)
        return f"log p({label})", lambda: math.log(predictor.classify(pixels).probabilities[label])
    if name == "captioning":
        return _caption(predictor, image_of(request, predictor.task.size.channels))
    if name == "copying":
        return _copy(predictor, inputs)
    if name not in SCORES:
        raise InputError(f"answers of a model for {name} have no score; choose another model")
    kind: Any = SCORES[name]
    if name == "question_answering":
        question = kind(question=inputs.question, context=inputs.context)
    elif name == "tagging":
        tags = predictor.tag(inputs).tags
        question = kind(text=inputs, word=next((place for place, tag in enumerate(tags) if tag != "O"), 0))
    elif "source" in kind.__dataclass_fields__:
        question = kind(source=inputs, to=getattr(request.parameters, "tgt_lang", None))
    else:
        pair = getattr(inputs, "text_pair", None)
        text = getattr(inputs, "text", inputs)
        question = kind(text=text if pair is None else (text, pair))
    scored = question.of(predictor)
    read = [Tokens.pad([list(part.ids)]) for part in scored.read]
    return f"{scored.quantity}({scored.target})", lambda: scored.score(read)[0].item()


def _caption(predictor: Captioner, pixels: np.ndarray) -> tuple[str, Callable[[], float]]:
    """The log-probability of the model's own caption, computed with teacher forcing, so that the caption stays the same."""
    model, tokenizer = predictor.model, predictor.task.tokenizer
    images = Images.of([frames_of(pixels, predictor.task.size)]).to(predictor.device)
    best = search(model, images, predictor.task.generation.with_ids(tokenizer))[0][0]
    written = [*best.tokens, *[tokenizer.end_id] * (best.length - len(best.tokens))]
    given = Tokens.pad([[tokenizer.start_id, *written[:-1]]]).to(predictor.device)

    def probability() -> float:
        logs = model(images, given).logits[0].float().log_softmax(dim=-1)
        return float(logs[range(len(written)), written].sum())

    return f"log p({shorten(tokenizer.decode(best.tokens), 60, placeholder='...')})", probability


def _copy(predictor: Copier, text: str) -> tuple[str, Callable[[], float]]:
    """The log-probability of the bits that the model predicted."""
    batch = predictor.task.batch([predictor.numbers(numbers_of(vectors_in(predictor, text)))]).to(predictor.device)

    def logits() -> torch.Tensor:
        return predictor.task.bit_logits(predictor.model, batch)[0].float()

    signs = torch.where(logits() > 0, 1.0, -1.0)
    return "log p(bits)", lambda: torch.nn.functional.logsigmoid(signs * logits()).sum().item()


def _ids(predictor: LanguageModel, source: Any) -> list[int]:
    """The token ids of a patch's `from`."""
    return list(predictor.task.prompted(predictor.task.tokenizer.encode(source))) if isinstance(source, str) else source
