"""OpenAI's API: completions, chat completions, embeddings and models, answered by an engine."""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.serving.attention import Attention, Seen
from regard.serving.link import EngineLink
from regard.serving.messages import Began, Card, Likely, Piece, Token
from regard.serving.requests import (
    MOST_TEXTS,
    BadRequest,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingRequest,
    TokenizeRequest,
)

MOST_PROMPTS = 64
MOST_INPUTS = 2048
USUAL_COMPLETION = 16
"""The most tokens of a completion without max_tokens, as in OpenAI's API."""


Show = Callable[[Seen, Attention], Awaitable[dict[str, Any]]]


@dataclass(kw_only=True, slots=True, eq=False)
class Asked:
    """One call of completions or chat completions: the requests to the engine, and the layout of the answer.

    Arguments:
        model: the name that it is served under.
        chat: whether it is a chat completion.
        writes: arguments of `EngineLink.write`, one mapping for each prompt.
        kept: how many of the texts for each prompt are returned.
        echo: whether the prompt is repeated before the text.
        top: how many of the most probable tokens are returned for each position; None for no log-probabilities.
        usage_at_end: whether a stream ends with the token counts.
        ignored: fields of the request that have no effect.
        attention: which weights are returned.
        show: lays them out.
        began: the engine's first reply for each prompt that has been read, by the prompt's number.
        written: the number of tokens that the engine has sent so far.
        first_sent: when the first of them arrived, in seconds of `time.perf_counter`; 0 before.
    """

    model: str
    chat: bool
    writes: Sequence[Mapping[str, Any]]
    kept: int
    echo: bool = False
    top: int | None = None
    usage_at_end: bool = False
    attention: Attention | None = None
    show: Show | None = None
    ignored: Sequence[str] = ()
    created: int = field(default_factory=lambda: int(time.time()))
    name: str = ""
    began: dict[int, Began] = field(default_factory=dict)
    written: int = 0
    first_sent: float = 0.0

    def __post_init__(self) -> None:
        self.name = ("chatcmpl-" if self.chat else "cmpl-") + secrets.token_hex(12)

    def count(self, number: int, event: Began | Piece) -> None:
        """Count the tokens in a reply of the engine."""
        if isinstance(event, Began):
            self.began[number] = event
            return
        self.written += len(event.tokens)
        self.first_sent = self.first_sent or time.perf_counter()

    @property
    def usage(self) -> dict[str, Any]:
        """The token counts so far, as `usage` in OpenAI's API."""
        read = sum(each.prompt_tokens for each in self.began.values())
        return {
            "prompt_tokens": read,
            "completion_tokens": self.written,
            "total_tokens": read + self.written,
            "prompt_tokens_details": {"cached_tokens": sum(each.reused for each in self.began.values())},
        }


def asked_to_complete(request: CompletionRequest, client: list[str]) -> Asked:
    """The engine's requests for a body of /v1/completions.

    Raises:
        BadRequest: where the request cannot be served.
    """
    request.check()
    prompts = request.prompts()
    if len(prompts) > MOST_PROMPTS:
        raise BadRequest(f"prompt has {len(prompts)} texts; give at most {MOST_PROMPTS} at once", "prompt")
    if request.attention is not None and len(prompts) > 1:
        raise BadRequest(f"attention: is returned for one prompt at a time, and prompt has {len(prompts)}", "attention")
    if len(prompts) * request.generated() > MOST_TEXTS:
        raise BadRequest(
            f"{len(prompts)} prompts of {request.generated()} texts each; ask for {MOST_TEXTS} at most", "n"
        )
    usage, settings, stop = request.usage_at_end(), request.settings(), request.stops()
    writes = [
        {
            "model": request.model,
            "client": client,
            "prompt": prompt,
            "settings": settings,
            "copies": request.generated(),
            "maximum": USUAL_COMPLETION if request.max_tokens is None else request.max_tokens,
            "stop": stop,
            "top": request.logprobs or 0,
            "scored": bool(request.echo) and request.logprobs is not None,
            "stream": bool(request.stream),
            "attention": request.attention,
            "interventions": request.interventions or [],
        }
        for prompt in prompts
    ]
    return Asked(
        model=request.model,
        chat=False,
        writes=writes,
        kept=request.copies(),
        echo=bool(request.echo),
        top=request.logprobs,
        usage_at_end=usage,
        attention=request.attention,
        ignored=request.ignored(),
    )


def asked_to_chat(request: ChatRequest, client: list[str]) -> Asked:
    """The engine's request for a body of /v1/chat/completions.

    Raises:
        BadRequest: where the request cannot be served.
    """
    request.check()
    write = {
        "model": request.model,
        "client": client,
        "messages": [message.plain(place) for place, message in enumerate(request.messages)],
        "template": request.chat_template_kwargs or {},
        "settings": request.settings(),
        "copies": request.copies(),
        "maximum": request.maximum(),
        "stop": request.stops(),
        "top": request.top_logprobs or 0,
        "stream": bool(request.stream),
        "attention": request.attention,
        "interventions": request.interventions or [],
    }
    top = (request.top_logprobs or 0) if request.logprobs else None
    return Asked(
        model=request.model,
        chat=True,
        writes=[write],
        kept=request.copies(),
        top=top,
        usage_at_end=request.usage_at_end(),
        attention=request.attention,
        ignored=request.ignored(),
    )


async def replies(link: EngineLink, asked: Asked) -> AsyncGenerator[tuple[int, Began | Piece]]:
    """The engine's replies for all prompts as they arrive, each with its prompt's number; their tokens are counted."""
    if len(asked.writes) == 1:
        async with contextlib.aclosing(link.write(**asked.writes[0])) as events:
            async for event in events:
                asked.count(0, event)
                yield 0, event
        return
    queue: asyncio.Queue[tuple[int, Began | Piece | Exception | None]] = asyncio.Queue()

    async def follow(number: int, write: Mapping[str, Any]) -> None:
        try:
            async with contextlib.aclosing(link.write(**write)) as events:
                async for event in events:
                    queue.put_nowait((number, event))
            queue.put_nowait((number, None))
        except Exception as error:
            queue.put_nowait((number, error))

    tasks = [asyncio.create_task(follow(number, write)) for number, write in enumerate(asked.writes)]
    try:
        left = len(tasks)
        while left:
            number, event = await queue.get()
            if isinstance(event, Exception):
                raise event
            if event is None:
                left -= 1
            else:
                asked.count(number, event)
                yield number, event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(kw_only=True, slots=True, eq=False)
class Choice:
    """One generated text, as far as it has arrived."""

    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    end: str = ""
    at_stop: bool = False
    attention: Seen | None = None

    @property
    def mean(self) -> float:
        """The mean log-probability of its tokens, by which `best_of` chooses."""
        return sum(token.log_probability or 0.0 for token in self.tokens) / max(len(self.tokens), 1)


async def collected(link: EngineLink, asked: Asked) -> list[list[Choice]]:
    """The texts generated after each prompt; where more are generated than returned, those with the highest mean first."""
    choices = [[Choice() for _ in range(write["copies"])] for write in asked.writes]
    async with contextlib.aclosing(replies(link, asked)) as events:
        async for number, event in events:
            if isinstance(event, Began):
                continue
            choice = choices[number][event.copy]
            choice.text += event.text
            choice.tokens += event.tokens
            choice.end, choice.at_stop = event.end, event.at_stop
            choice.attention = event.attention
    return [own if asked.kept == len(own) else sorted(own, key=lambda each: -each.mean) for own in choices]


async def completed(link: EngineLink, asked: Asked) -> dict[str, Any]:
    """The complete answer."""
    made = []
    for number, own in enumerate(await collected(link, asked)):
        for choice in own[: asked.kept]:
            made.append(
                _choice(asked, len(made), asked.began[number], choice) | await _attention(asked, choice.attention)
            )
    kind = "chat.completion" if asked.chat else "text_completion"
    return {**_head(asked, kind), "choices": made, "usage": asked.usage}


async def _attention(asked: Asked, seen: Seen | None) -> dict[str, Any]:
    """The field with attention weights, where they were asked for."""
    if asked.show is None or asked.attention is None or seen is None:
        return {}
    return {"attention": await asked.show(seen, asked.attention)}


def _choice(asked: Asked, index: int, began: Began, choice: Choice) -> dict[str, Any]:
    if asked.chat:
        return {
            "index": index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": None if asked.top is None else _chat_log_probabilities(choice.tokens),
            "finish_reason": choice.end,
        }
    text, tokens = choice.text, choice.tokens
    if asked.echo:
        text, tokens = began.text + text, [*began.tokens, *tokens]
    return {
        "index": index,
        "text": text,
        "logprobs": None if asked.top is None else _log_probabilities(tokens, _Place(), asked.top),
        "finish_reason": choice.end,
    }


async def chunks(link: EngineLink, asked: Asked) -> AsyncGenerator[dict[str, Any]]:
    """The answer as the events of a stream."""
    kind = "chat.completion.chunk" if asked.chat else "text_completion"
    places: defaultdict[int, _Place] = defaultdict(_Place)
    more = {"usage": None} if asked.usage_at_end else {}
    async with contextlib.aclosing(replies(link, asked)) as events:
        async for number, event in events:
            first = number * asked.kept
            if isinstance(event, Began):
                for index in range(first, first + asked.kept):
                    if asked.chat:
                        delta = {"role": "assistant", "content": "", "refusal": None}
                        yield {**_head(asked, kind), "choices": [_delta(index, delta, None, None)], **more}
                    elif asked.echo:
                        logs = _logs(asked, event.tokens, places[index])
                        piece = {"index": index, "text": event.text, "logprobs": logs, "finish_reason": None}
                        yield {**_head(asked, kind), "choices": [piece], **more}
                continue
            index = first + event.copy
            end = event.end or None
            if asked.chat:
                logs = None if asked.top is None else _chat_log_probabilities(event.tokens)
                made = _delta(index, {"content": event.text} if event.text or not end else {}, logs, end)
            else:
                logs = _logs(asked, event.tokens, places[index])
                made = {"index": index, "text": event.text, "logprobs": logs, "finish_reason": end}
            made |= await _attention(asked, event.attention)
            yield {**_head(asked, kind), "choices": [made], **more}
    if asked.usage_at_end:
        yield {**_head(asked, kind), "choices": [], "usage": asked.usage}


def _logs(asked: Asked, tokens: Sequence[Token], place: _Place) -> dict[str, Any] | None:
    return None if asked.top is None else _log_probabilities(tokens, place, asked.top)


def _delta(index: int, delta: Mapping[str, Any], logs: Any, end: str | None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logs, "finish_reason": end}


def _head(asked: Asked, kind: str) -> dict[str, Any]:
    return {"id": asked.name, "object": kind, "created": asked.created, "model": asked.model}


@dataclass(slots=True, eq=False)
class _Place:
    """The offset at which the next token of a text begins, in characters. A character counts when all its bytes have arrived."""

    offset: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def go_on(self, token: Token) -> int:
        """The offset at which a token begins; moves on to the end of the token."""
        begin = self.offset
        self.offset += len(self._decoder.decode(token.added or b""))
        return begin


def _log_probabilities(tokens: Sequence[Token], place: _Place, top: int) -> dict[str, Any]:
    """Log-probabilities in the layout of completions."""
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.log_probability for token in tokens],
        "top_logprobs": [_by_text(token) for token in tokens] if top else None,
        "text_offset": [place.go_on(token) for token in tokens],
    }


def _by_text(token: Token) -> dict[str, float] | None:
    """The log-probabilities of the most probable tokens and of the token itself, by the text of the token.

    Where several tokens have the same text, the token itself has that key, else the most probable one; the others have the key
    `token_id:ID`, as in vLLM.
    """
    if token.log_probability is None:
        return None
    found = {token.text: token.log_probability}
    for each in token.top:
        if each.id != token.id:
            found[f"token_id:{each.id}" if each.text in found else each.text] = each.log_probability
    return found


def _chat_log_probabilities(tokens: Sequence[Token]) -> dict[str, Any]:
    def entry(token: Token | Likely) -> dict[str, Any]:
        held = None if token.added is None else list(token.added)
        return {"token": token.text, "logprob": token.log_probability, "bytes": held}

    content = [{**entry(token), "top_logprobs": [entry(each) for each in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


async def embeddings(link: EngineLink, request: EmbeddingRequest, client: list[str]) -> dict[str, Any]:
    """Embeddings of texts, as /v1/embeddings answers.

    Raises:
        BadRequest: where the request cannot be served.
    """
    texts = request.texts()
    if len(texts) > MOST_INPUTS:
        raise BadRequest(f"input has {len(texts)} texts; give at most {MOST_INPUTS} at once", "input")
    if any(not text for text in texts):
        raise BadRequest("input: a text is empty; leave it out", "input")
    answer = await link.ask(request.model, "embed", {"texts": texts}, client=client)
    vectors = np.frombuffer(answer["vectors"], dtype="<f4").reshape(-1, answer["width"])
    if request.dimensions is not None:
        vectors = shortened(vectors, request.dimensions)
    made = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(row.tobytes()).decode()
            if request.encoding_format == "base64"
            else row.tolist(),
        }
        for index, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": answer["tokens"], "total_tokens": answer["tokens"]}
    return {"object": "list", "data": made, "model": request.model, "usage": usage}


def shortened(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """The first components of each embedding; where the embeddings have length one, the shortened ones are normalized again.

    Arguments:
        vectors: (texts, width) float32.
        dimensions: the number of components to keep.

    Raises:
        BadRequest: for fewer than one, or more than the width.

    >>> shortened(np.array([[0.6, 0.8]], dtype=np.float32), 1).tolist()
    [[1.0]]
    """
    if not 1 <= dimensions <= vectors.shape[1]:
        raise BadRequest(
            f"dimensions is {dimensions}; the model's embeddings have {vectors.shape[1]}; give 1 to that", "dimensions"
        )
    cut = np.ascontiguousarray(vectors[:, :dimensions])
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.allclose(lengths, 1, atol=1e-3):
        return cut
    own = np.linalg.norm(cut, axis=1, keepdims=True)
    return np.where(own > 0, cut / np.where(own > 0, own, 1), cut).astype("<f4")


async def tokenize(link: EngineLink, request: TokenizeRequest, client: list[str]) -> dict[str, Any]:
    """The token ids of a text, as /tokenize answers."""
    given = {"text": request.prompt, "special": request.add_special_tokens, "side": request.side}
    answer = await link.ask(request.model, "tokenize", given, client=client)
    return {
        "tokens": answer["ids"],
        "count": len(answer["ids"]),
        "max_model_len": link.models[request.model].positions,
        "token_strs": answer["texts"] if request.return_token_strs else None,
    }


async def detokenize(link: EngineLink, request: DetokenizeRequest, client: list[str]) -> dict[str, Any]:
    """The text of token ids, as /detokenize answers."""
    given = {"ids": request.tokens, "side": request.side}
    return {"prompt": await link.ask(request.model, "detokenize", given, client=client)}


def model_card(card: Card) -> dict[str, Any]:
    """The description of a model in /v1/models, with its task and routes."""
    return {
        "id": card.name,
        "object": "model",
        "created": card.created,
        "owned_by": "regard",
        "task": card.task,
        "routes": card.routes,
        "max_model_len": card.positions,
        "parameters": card.parameters,
        "attention": card.attention,
        "first_texts": card.first_texts,
        "languages": card.languages,
    }
