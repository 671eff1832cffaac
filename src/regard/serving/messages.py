"""What the web process and the engine's process say to each other, as msgpack: plain data, strictly read, never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regard.serving.attention import Attention, Patch, Scale, Seen, Weigh


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOptions:
    """What the engine's process is started with.

    Arguments:
        folders: of the models, by the names they are served under.
        dtype: of those that have none of their own. 8 and 4 bits are for language models and translators; others next to them
            are served in float32.
        dtypes: of single ones, by name.
        rows: texts that a language model writes together.
        kept_bytes: memory of each language model for the beginnings of prompts.
        threads: of the processor; PyTorch's own number where None.
    """

    folders: Mapping[str, str]
    dtype: str = "float32"
    dtypes: Mapping[str, str] = field(default_factory=dict)
    rows: int = 16
    kept_bytes: int = 2**28
    threads: int | None = None


class Write(msgspec.Struct, tag="write", frozen=True, kw_only=True):
    """Write texts after a prompt, with a language model.

    Arguments:
        key: names the request in every answer.
        model: by the name it is served under.
        client: whose request it is, as a path of names (`regard.generation.turns`).
        prompt: a text, or its token ids; None where there are `messages`.
        messages: a conversation, for the chat template.
        template: variables of the template.
        settings: of `GenerationSettings`, but for lengths.
        copies: how many texts.
        maximum: the most tokens of each; None for as many as the model has positions for, but no more than `usual`.
        usual: see there; None for any number.
        kept: of a prompt that is a text, how many of its last tokens are read; all where None.
        stop: strings that end a text and are not part of it.
        top: how many of the most probable tokens to tell of each place.
        scored: whether to send the log-probabilities of the prompt's tokens.
        stream: whether to send each piece of the text as it is written.
        attention: which weights to send with the end of each text.
        interventions: what is changed in the model while it writes.
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
    """Nobody waits for a request any more."""

    key: int


class Ask(msgspec.Struct, tag="ask", frozen=True, kw_only=True):
    """Anything that is answered at once: text embeddings, tokens of a text, a task's answer.

    Arguments:
        key, model, client: as for `Write`.
        what: `embed`, `tokenize`, `detokenize`, `task`, `expected`, `lens`, `effects`, or `beam`.
        given: what is asked about.
    """

    key: int
    model: str
    what: str
    given: Any
    client: list[str] = []


Request = Write | Cancel | Ask


class Likely(msgspec.Struct, frozen=True, array_like=True):
    """A token that could be at a place.

    Arguments:
        id: in the vocabulary.
        text: what it is called (`regard.serving.tokens`).
        added: the bytes that it adds to a text; None for nothing.
        log_probability: natural log.
    """

    id: int
    text: str
    added: bytes | None
    log_probability: float


class Token(msgspec.Struct, frozen=True, array_like=True):
    """A token that is at a place.

    Arguments:
        id, text, added: as of `Likely`.
        log_probability: natural log; None for the first token of a prompt, before which nothing stands.
        top: the most probable tokens at its place.
    """

    id: int
    text: str
    added: bytes | None
    log_probability: float | None
    top: list[Likely]


class Began(msgspec.Struct, tag="began", frozen=True, kw_only=True):
    """The prompt was read.

    Arguments:
        key: of the request.
        prompt_tokens: how many tokens it has.
        reused: how many of them were not read again.
        text: the prompt.
        tokens: its tokens, where their log-probabilities were asked for.
    """

    key: int
    prompt_tokens: int
    reused: int
    text: str
    tokens: list[Token]


class Piece(msgspec.Struct, tag="piece", frozen=True, kw_only=True):
    """More of a text.

    Arguments:
        key: of the request.
        copy: which text.
        text: what is new of it; all of it at the end where pieces were not asked for.
        tokens: written since the last piece, an end token among them.
        end: `stop` or `length` where the text is complete, else empty.
        at_stop: whether it ended at one of the strings to stop at, and not by itself.
        attention: what the model attended to, with the end where it was asked for.
    """

    key: int
    copy: int
    text: str
    tokens: list[Token]
    end: str
    at_stop: bool = False
    attention: Seen | None = None


class Answer(msgspec.Struct, tag="answer", frozen=True):
    """What an `Ask` asked for."""

    key: int
    value: Any


class Failure(msgspec.Struct, tag="failure", frozen=True):
    """A request ended with an error.

    Arguments:
        key: of the request.
        message: a sentence.
        blame: `request` where what was asked for is wrong, `engine` where the engine failed, `lost` where its process ended.
        code: OpenAI's word for what is wrong, where it has one.
    """

    key: int
    message: str
    blame: str
    code: str = ""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is served.

    Arguments:
        name: it is served under.
        task: of the package.
        created: seconds since 1970, of the folder.
        positions: the most tokens of a text; None for any number.
        chats: whether it has a chat template.
        width: of the vectors it makes; None where it makes none.
        parameters: how many.
        attention: addresses of its attention layers.
        routes: of the inference API that it is served at, the one it is served at by itself first.
        rows: texts that it writes together; None where it writes none.
        first_texts: what the studio shows of it at first (`regard.serving.first_texts`).
        languages: those that it translates into, of which a request has to name one; none where there is no choice.
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
    """A model is being loaded.

    Arguments:
        name: it is served under.
        number: of it, from 1.
        count: of all.
        size: bytes of its weights on disk; 0 where that is not known.
        before: bytes of the models that were loaded before it.
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
    """The models could not be loaded."""

    message: str


class Load(msgspec.Struct, tag="load", frozen=True, kw_only=True):
    """How full the engine is, after each turn that changed it.

    Arguments:
        writing: texts that are being written, by model.
        waiting: requests that wait or whose prompts are read, by model.
    """

    writing: dict[str, int]
    waiting: dict[str, int]


Reply = Began | Piece | Answer | Failure | Loading | Ready | Broken | Load

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_replies = msgspec.msgpack.Decoder(list[Reply]).decode
