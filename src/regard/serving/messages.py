"""The messages between the web process and the engine, in msgpack: plain data, strictly decoded, never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regard.serving.attention import Attention, Patch, Scale, Seen, Weigh


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOptions:
    """How the engine process is started.

    Arguments:
        folders: of the models, by the names they are served under.
        dtype: of the weights, for models that are not in `dtypes`. int8 and int4 are for language models and translators;
            with them, other models are served in float32.
        dtypes: of single models, by name.
        rows: the most texts that one language model generates at the same time.
        kept_bytes: memory of each language model for the KV caches of prompt prefixes.
        threads: of the processor; None for PyTorch's default.
    """

    folders: Mapping[str, str]
    dtype: str = "float32"
    dtypes: Mapping[str, str] = field(default_factory=dict)
    rows: int = 16
    kept_bytes: int = 2**28
    threads: int | None = None


class Write(msgspec.Struct, tag="write", frozen=True, kw_only=True):
    """Generate texts after a prompt with a language model.

    Arguments:
        key: identifies the request in every reply.
        model: by the name it is served under.
        client: who sent the request, as a path of names (`regard.generation.turns`).
        prompt: a text, or its token ids; None with `messages`.
        messages: a conversation, for the chat template.
        template: variables of the template.
        settings: fields of `GenerationSettings`, without lengths.
        copies: the number of texts.
        maximum: the most tokens of each text; None for as many as the model has positions for, but no more than `usual`.
        usual: the limit where `maximum` is None; None for no limit.
        kept: the number of tokens at the end of a text prompt that are read; None for all.
        stop: strings that end a text and are not part of it.
        top: how many of the most probable tokens to return for each position.
        scored: whether to return the log-probabilities of the prompt's tokens.
        stream: whether to send each piece of the text as it is generated.
        attention: which weights to send with the end of each text.
        interventions: how the model is changed while it generates.
    """

    key: int
    model: str
    client: list[str] = []
    prompt: str | list[int] | None = None
    messages: list[dict[str, Any]] | None = None
    template: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    copies: int = 1
    maximum: int | None = None
    usual: int | None = None
    kept: int | None = None
    stop: list[str] = []
    top: int = 0
    scored: bool = False
    stream: bool = False
    attention: Attention | None = None
    interventions: list[Scale | Patch | Weigh] = []


class Cancel(msgspec.Struct, tag="cancel", frozen=True):
    """Cancel a request that nobody waits for any more."""

    key: int


class Ask(msgspec.Struct, tag="ask", frozen=True, kw_only=True):
    """A request that has one answer, such as text embeddings, the tokens of a text or a task's prediction.

    Arguments:
        key, model, client: as for `Write`.
        what: `embed`, `tokenize`, `detokenize`, `task`, `expected`, `lens`, `effects`, or `beam`.
        given: its arguments.
    """

    key: int
    model: str
    what: str
    given: Any
    client: list[str] = []


Request = Write | Cancel | Ask


class Likely(msgspec.Struct, frozen=True, array_like=True):
    """A probable token at a position.

    Arguments:
        id: in the vocabulary.
        text: the token as text (`regard.serving.tokens`).
        added: the bytes that it adds to a text; None for nothing.
        log_probability: natural log.
    """

    id: int
    text: str
    added: bytes | None
    log_probability: float


class Token(msgspec.Struct, frozen=True, array_like=True):
    """The token at a position.

    Arguments:
        id, text, added: as for `Likely`.
        log_probability: natural log; None for the first token of a prompt, which has no context.
        top: the most probable tokens at its position.
    """

    id: int
    text: str
    added: bytes | None
    log_probability: float | None
    top: list[Likely]


class Began(msgspec.Struct, tag="began", frozen=True, kw_only=True):
    """The prompt has been read.

    Arguments:
        key: of the request.
        prompt_tokens: the number of tokens in the prompt.
        reused: the number of them whose keys and values came from the cache.
        text: the prompt.
        tokens: its tokens, where their log-probabilities were asked for.
    """

    key: int
    prompt_tokens: int
    reused: int
    text: str
    tokens: list[Token]


class Piece(msgspec.Struct, tag="piece", frozen=True, kw_only=True):
    """A new part of a text.

    Arguments:
        key: of the request.
        copy: which of the request's texts it belongs to.
        text: the new part; the whole text, with its end, where streaming was not asked for.
        tokens: generated since the last piece, including the end-of-sequence token.
        end: `stop` or `length` where the text is complete, else empty.
        at_stop: whether it ended at one of the stop strings rather than at the end-of-sequence token.
        attention: what the model attended to, sent with the end where it was asked for.
    """

    key: int
    copy: int
    text: str
    tokens: list[Token]
    end: str
    at_stop: bool = False
    attention: Seen | None = None


class Answer(msgspec.Struct, tag="answer", frozen=True):
    """The answer to an `Ask`."""

    key: int
    value: Any


class Failure(msgspec.Struct, tag="failure", frozen=True):
    """A request ended with an error.

    Arguments:
        key: of the request.
        message: a sentence.
        blame: `request` where the request is wrong, `engine` where the engine failed, `lost` where its process ended.
        code: OpenAI's error code, where there is one.
    """

    key: int
    message: str
    blame: str
    code: str = ""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A served model.

    Arguments:
        name: that it is served under.
        task: its task in this package.
        created: time of its folder, in seconds since 1970.
        positions: the most tokens of a text; None for any number.
        chats: whether it has a chat template.
        width: of the embeddings it computes; None for models that compute none.
        parameters: the number of its parameters.
        attention: addresses of its attention layers.
        routes: names of the inference API's tasks that it is served for, its default first.
        rows: the most texts that it generates at the same time; None for models that are no language model.
        first_texts: the texts that the studio shows at first (`regard.serving.first_texts`).
        languages: the target languages of a multilingual translator, of which a request must name one; empty for other models.
    """

    name: str
    task: str
    created: int
    positions: int | None
    chats: bool
    width: int | None
    parameters: int
    attention: list[str] = []
    routes: list[str] = []
    rows: int | None = None
    first_texts: list[str] = []
    languages: list[str] = []

    @property
    def writes(self) -> bool:
        """Whether it is a language model."""
        return self.rows is not None


class Loading(msgspec.Struct, tag="loading", frozen=True):
    """A model is about to be loaded.

    Arguments:
        name: that it is served under.
        number: its number, from 1.
        count: the number of models.
        size: bytes of its weights on disk; 0 where unknown.
        before: bytes of the models loaded before it.
        total: bytes of all models.
    """

    name: str
    number: int
    count: int
    size: int
    before: int
    total: int


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """All models are loaded."""

    models: list[Card]


class Broken(msgspec.Struct, tag="broken", frozen=True):
    """The models could not be loaded; `message` says why."""

    message: str


class Load(msgspec.Struct, tag="load", frozen=True, kw_only=True):
    """The engine's load, sent after each turn that changed it.

    Arguments:
        writing: the number of texts being generated, by model.
        waiting: the number of requests that wait or whose prompts are being read, by model.
    """

    writing: dict[str, int]
    waiting: dict[str, int]


Reply = Began | Piece | Answer | Failure | Loading | Ready | Broken | Load

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_replies = msgspec.msgpack.Decoder(list[Reply]).decode
