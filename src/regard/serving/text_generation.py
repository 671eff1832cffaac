"""Language models as text-generation-inference serves them: `text_generation` of `huggingface_hub.InferenceClient`.

The answer is a text, or a stream with an event for each token. This module needs no torch: the engine is asked as for
completions.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from regard.errors import InputError
from regard.serving.link import EngineLink
from regard.serving.messages import Began, Card, Likely, Piece, Token
from regard.serving.openai import Asked, Choice, collected, replies
from regard.serving.responses import Ending
from regard.serving.task_requests import TextGenerationParameters, TextGenerationRequest

USUAL = 100
"""The most tokens without max_new_tokens, as the client documents it; fewer where the model has fewer positions left."""


def asked_to_continue(card: Card, request: TextGenerationRequest, client: list[str]) -> Asked:
    """The engine's request for a body of this route.

    Raises:
        InputError: for parameters that cannot be served, or that exclude each other.
    """
    asked = request.parameters or TextGenerationParameters()
    copies, rows = asked.best_of or 1, card.rows or 1
    samples = asked.samples
    for name, refused, why in (
        ("best_of", copies > rows, f"give 1 to {rows} (--rows)"),
        ("best_of", copies > 1 and not samples, "all are the same without do_sample; leave it out"),
        ("best_of", copies > 1 and request.stream, "the best is only known at the end; leave out stream"),
        ("decoder_input_details", asked.decoder_input_details and request.stream, "not in a stream; leave it out"),
        ("decoder_input_details", asked.decoder_input_details and not asked.details, "set details too"),
    ):
        if refused:
            raise InputError(f"parameters.{name}: is {getattr(asked, name)!r}; {why}")
    if request.stream and request.attention is not None:
        raise InputError("attention: is not available in this stream; leave one of the two out, or use /v1/completions")
    settings: dict[str, Any] = {}
    if samples:
        settings = {"sample": True, "seed": secrets.randbits(53) if asked.seed is None else asked.seed}
    for name in ("temperature", "top_k", "top_p", "repetition_penalty", "frequency_penalty"):
        if getattr(asked, name) is not None:
            settings[name] = getattr(asked, name)
    write = {
        "model": card.name,
        "client": client,
        "prompt": request.inputs,
        "settings": settings,
        "copies": copies,
        "maximum": asked.max_new_tokens,
        "usual": USUAL,
        "kept": asked.truncate,
        "stop": asked.stop or [],
        "top": asked.top_n_tokens or 0,
        "scored": bool(asked.decoder_input_details),
        "stream": bool(request.stream),
        "attention": request.attention,
        "interventions": request.interventions or [],
    }
    return Asked(model=card.name, chat=False, writes=[write], kept=1, attention=request.attention)


async def continuation(link: EngineLink, asked: Asked, request: TextGenerationRequest) -> Any:
    """The complete answer; where attention is asked for, an object with both."""
    wanted = request.parameters or TextGenerationParameters()
    (choices,) = await collected(link, asked)
    best, *others = choices
    before = request.inputs if wanted.return_full_text else ""
    answer: dict[str, Any] = {"generated_text": before + best.text}
    if wanted.details:
        began, seed = asked.began[0], _seed(asked)
        answer["details"] = _details(wanted, began, best, seed)
        if others:
            answer["details"]["best_of_sequences"] = [
                {"generated_text": before + each.text, **_details(wanted, began, each, seed)} for each in others
            ]
    if asked.show is None or asked.attention is None or best.attention is None:
        return [answer]
    return {"answer": [answer], "attention": await asked.show(best.attention, asked.attention)}


async def continuation_pieces(
    link: EngineLink, asked: Asked, request: TextGenerationRequest
) -> AsyncGenerator[dict[str, Any]]:
    """The events of a stream, one for each token; their `token.text` joined are the text.

    A token that adds nothing, such as the end-of-sequence token, has its name in the vocabulary as text where details are asked
    for.
    """
    wanted = request.parameters or TextGenerationParameters()
    written, count = request.inputs if wanted.return_full_text else "", 0
    async with contextlib.aclosing(replies(link, asked)) as events:
        async for _, event in events:
            if isinstance(event, Began):
                continue
            written += event.text
            for place, (token, text) in enumerate(_shares(event, named=bool(wanted.details)), start=1):
                count += 1
                last = bool(event.end) and place == len(event.tokens)
                made: dict[str, Any] = {"index": count, "token": {**_token(token), "text": text}}
                if wanted.top_n_tokens:
                    made["top_tokens"] = [_token(each) for each in token.top]
                end = {
                    "finish_reason": _finish(event),
                    "generated_tokens": count,
                    "input_length": asked.began[0].prompt_tokens,
                    "seed": _seed(asked),
                }
                yield {**made, "generated_text": written if last else None, "details": end if last else None}


def error_event(ending: Ending) -> Mapping[str, Any]:
    """The event that reports why a stream ended early, as the client expects it."""
    return {"error": ending.message, "error_type": "validation" if ending.status == 400 else "generation"}


def _seed(asked: Asked) -> int | None:
    return asked.writes[0]["settings"].get("seed")


def _shares(piece: Piece, *, named: bool) -> list[tuple[Token, str]]:
    """The tokens of a piece, each with its part of the text: the last token that adds to the text has all of it."""
    adding = [place for place, each in enumerate(piece.tokens) if each.added is not None]
    owner = adding[-1] if adding else len(piece.tokens) - 1
    return [
        (each, (piece.text if place == owner else "") or (each.text if named and each.added is None else ""))
        for place, each in enumerate(piece.tokens)
    ]


def _finish(text: Piece | Choice) -> str:
    return "length" if text.end == "length" else "stop_sequence" if text.at_stop else "eos_token"


def _token(token: Token | Likely) -> dict[str, Any]:
    return {"id": token.id, "text": token.text, "logprob": token.log_probability, "special": token.added is None}


def _details(wanted: TextGenerationParameters, began: Began, text: Choice, seed: int | None) -> dict[str, Any]:
    """The details of a generated text; they include the prompt's tokens where their log-probabilities were asked for."""
    made: dict[str, Any] = {
        "finish_reason": _finish(text),
        "generated_tokens": len(text.tokens),
        "seed": seed,
        "prefill": [{"id": each.id, "text": each.text, "logprob": each.log_probability} for each in began.tokens],
        "tokens": [_token(each) for each in text.tokens],
    }
    if wanted.top_n_tokens:
        made["top_tokens"] = [[_token(each) for each in token.top] for token in text.tokens]
    return made
