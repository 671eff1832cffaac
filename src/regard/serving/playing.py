"""The studio's playground: generates a text with the most probable tokens at each position, and its logit lens."""

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
"""How many tokens are returned for each position where the page asks for no other number."""

Top = Annotated[int, Meta(ge=1, le=100)]

Ids = Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(max_length=65536)]


class PlayRequest(Strict):
    """A text for a language model to continue.

    Arguments:
        model: by the name it is served under.
        text: the prompt.
        written: ids of tokens that follow the text; the model continues after them.
        tokens: the most tokens to generate.
        temperature: 0 for greedy decoding; else tokens are sampled.
        top_k, top_p: limit the tokens that are sampled; None for no limit.
        top: how many of the most probable tokens to return for each position.
        seed: of sampling.
        interventions: how the model is changed; positions of patches count in the text and `written` together.
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
    """A text for the logit lens, which is returned from the text's last position on.

    Arguments:
        model, text, written, interventions: as for `PlayRequest`; the lens is returned for each token of `written`.
    """

    model: str
    text: str
    written: Ids = msgspec.field(default_factory=list)
    interventions: Interventions | None = None


async def write(link: EngineLink, wanted: PlayRequest, client: list[str]) -> Response:
    """Generate a text; the response has the attention over the whole text, in the format of /studio/look.

    Its JSON object has `prompt`, the number of tokens in the text; `steps`, each with a token, its log-probability and the most
    probable tokens at its position (of the model's own distribution, at any temperature); `end`, which is `stop` or `length`.
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
        raise BadRequest("the model generated nothing")
    seen = last.attention
    details = {"prompt": len(prompt) - len(wanted.written), "steps": [_step(each) for each in tokens], "end": last.end}
    body = await asyncio.to_thread(lambda: packed(view_of(seen), details))
    return Response(body, media_type="application/octet-stream")


def _step(token: Token) -> dict[str, Any]:
    def plain(each: Token | Likely) -> dict[str, Any]:
        return {"id": each.id, "label": each.text, "log_probability": each.log_probability}

    return {**plain(token), "top": [plain(each) for each in token.top]}


async def lens(link: EngineLink, wanted: LensRequest, client: list[str]) -> Any:
    """The logit lens of a language model at each position from the end of a text on."""
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
    """The token ids of the text.

    Raises:
        BadRequest: for a model that is no language model, and for an empty text.
    """
    if not link.models[wanted.model].writes:
        raise BadRequest(f"the model {wanted.model!r} is no language model and generates no text", "model")
    if not wanted.text.strip():
        raise BadRequest("text: is empty; there is nothing to continue", "text")
    return (await link.ask(wanted.model, "tokenize", {"text": wanted.text, "special": True}, client=client))["ids"]
