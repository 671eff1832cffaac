"""The studio's writing: a text token by token, what else might have was at each place, and what each layer would have said."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from regard.inspection.viewer import packed
from regard.serving.attention import EVERYTHING, Interventions, Strict, view_of
from regard.serving.messages import Began, Piece, Token
from regard.serving.requests import BadRequest

if TYPE_CHECKING:
    from regard.serving.link import EngineLink
    from regard.serving.messages import Likely

TOP = 10
"""Tokens that are told of a place where the page asks for no other number."""

Top = Annotated[int, Meta(ge=1, le=100)]

Ids = Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(max_length=65536)]


class PlayRequest(Strict):
    """A text that a language model continues.

    Arguments:
        model: by the name it is served under.
        text: what it reads.
        written: ids of the tokens that are after it already; the model continues after them.
        tokens: the most tokens to write.
        temperature: 0 for the most probable token each time; else tokens are drawn.
        top_k, top_p: of which tokens; of all where None.
        top: how many of the most probable tokens to tell of each place.
        seed: of the draws.
        interventions: what is changed in it; positions of patches count in the text and what is `written`.
    """

    model: str
    text: str
    written: Ids = msgspec.field(default_factory=list)
    tokens: Annotated[int, Meta(ge=1, le=256)] = 24
    temperature: Annotated[float, Meta(ge=0, le=100)] = 0.0
    top_k: Annotated[int, Meta(ge=1)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top: Top = TOP
    seed: Annotated[int, Meta(ge=0, lt=2**53)] = 0
    interventions: Interventions | None = None


class LensRequest(Strict):
    """A text of which the layers are asked what they would say next, from its end on.

    Arguments:
        model, text, written, interventions: as for `PlayRequest`; each of the tokens written is told of.
    """

    model: str
    text: str
    written: Ids = msgspec.field(default_factory=list)
    interventions: Interventions | None = None


async def write(link: EngineLink, wanted: PlayRequest, client: list[str]) -> Response:
    """A text that a language model wrote, with the attention to all of it, laid out as that of /studio/look.

    The JSON object has `prompt`, the tokens read before; `steps`, a token each with its log-probability and the most probable
    ones at its place (of the model itself, for any temperature); `end`, `stop` or `length`.
    """
    prompt, card = [*await _ids(link, wanted, client), *wanted.written], link.models[wanted.model]
    room = wanted.tokens if card.positions is None else card.positions + 1 - len(prompt)
    if room < 1:
        raise BadRequest(
            f"the text has {len(prompt)} tokens and the model has {card.positions} positions; shorten it", "text"
        )
    settings: dict[str, Any] = {}
    if wanted.temperature:
        settings = {"sample": True, "temperature": wanted.temperature, "seed": wanted.seed}
        settings |= {"top_k": wanted.top_k, "top_p": wanted.top_p}
    elif wanted.top_k is not None or wanted.top_p is not None:
        raise BadRequest("temperature is 0, so nothing is sampled: give one above 0, or leave top_k and top_p out")
    tokens: list[Token] = []
    last: Piece | None = None
    written = link.write(
        model=card.name,
        client=client,
        prompt=prompt,
        settings=settings,
        copies=1,
        maximum=min(wanted.tokens, room),
        top=wanted.top,
        attention=EVERYTHING,
        interventions=list(wanted.interventions or ()),
    )
    async with contextlib.aclosing(written) as events:
        async for event in events:
            if not isinstance(event, Began):
                tokens += event.tokens
                last = event
    if last is None or last.attention is None:
        raise BadRequest("the model wrote nothing")
    seen = last.attention
    told = {"prompt": len(prompt) - len(wanted.written), "steps": [_step(each) for each in tokens], "end": last.end}
    body = await asyncio.to_thread(lambda: packed(view_of(seen), told))
    return Response(body, media_type="application/octet-stream")


def _step(token: Token) -> dict[str, Any]:
    def told(each: Token | Likely) -> dict[str, Any]:
        return {"id": each.id, "label": each.text, "log_probability": each.log_probability}

    return {**told(token), "top": [told(each) for each in token.top]}


async def lens(link: EngineLink, wanted: LensRequest, client: list[str]) -> Any:
    """What each layer of a language model would say at each place from the end of a text on."""
    prompt = await _ids(link, wanted, client)
    given = {
        "ids": [*prompt, *wanted.written],
        "prompt": len(prompt),
        "first": len(prompt) - 1,
        "top": 3,
        "interventions": msgspec.to_builtins(wanted.interventions or []),
    }
    return await link.ask(wanted.model, "lens", given, client=client)


async def _ids(link: EngineLink, wanted: PlayRequest | LensRequest, client: list[str]) -> list[int]:
    """The tokens of the text.

    Raises:
        BadRequest: for a model that is no language model, and an empty text.
    """
    if not link.models[wanted.model].writes:
        raise BadRequest(f"the model {wanted.model!r} is no language model and continues no texts", "model")
    if not wanted.text.strip():
        raise BadRequest("text is empty; there is nothing to continue", "text")
    return (await link.ask(wanted.model, "tokenize", {"text": wanted.text, "special": True}, client=client))["ids"]
