"""The shapes of all answers, for the description of the routes; tests hold real answers against them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType


class Health(Struct, kw_only=True):
    """The web process answers."""

    status: Literal["ok"]
    version: str


class Readiness(Struct, kw_only=True):
    """Whether the engine answers, and how often it was started again."""

    ready: bool
    restarts: int


class Problem(Struct, kw_only=True):
    """What is wrong, as a sentence; the field that it is about, and OpenAI's word for it, where there are any."""

    message: str
    type: str
    param: str | None
    code: str | None


class Refusal(Struct, kw_only=True):
    """An error in OpenAI's shape."""

    error: Problem


class TaskRefusal(Struct, kw_only=True):
    """An error in the shape of Hugging Face's inference API."""

    error: str


class ModelCard(Struct, kw_only=True):
    """A model: its task, where else than at OpenAI's routes it is asked, its positions, parameters and attention layers.

    `first_texts` is what its studio shows at first, `languages` are those that a translator of several is asked for.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: str
    routes: list[str]
    max_model_len: int | None
    parameters: int
    attention: list[str]
    first_texts: list[str]
    languages: list[str]


class ModelList(Struct, kw_only=True):
    """All models."""

    object: Literal["list"]
    data: list[ModelCard]


class CachedTokens(Struct, kw_only=True):
    """Tokens of prompts that were not read again."""

    cached_tokens: int


class Usage(Struct, kw_only=True):
    """Tokens read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class CompletionLogs(Struct, kw_only=True):
    """Log-probabilities by token; none of the first token of a prompt."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class AttentionWeights(Struct, kw_only=True):
    """The weights of one layer, (heads, rows, keys): as numbers, or in base64 as float32 in little-endian order."""

    address: str
    kind: Literal["self", "cross"]
    heads: list[int]
    rows: list[int]
    query_tokens: list[str]
    key_tokens: list[str]
    weights: list[list[list[float]]] | str
    example: int | UnsetType = UNSET


class ShownAttention(Struct, kw_only=True):
    """What was looked at: maps, and of several examples what each is called; or the address of a page that shows them."""

    maps: list[AttentionWeights] | UnsetType = UNSET
    examples: list[str] | UnsetType = UNSET
    page: str | UnsetType = UNSET


class WithAttention(Struct, kw_only=True):
    """A task's answer next to the attention that was asked for with it."""

    answer: Any
    attention: ShownAttention


class CompletionChoice(Struct, kw_only=True):
    """A text; in a stream what is new of it."""

    index: int
    text: str
    logprobs: CompletionLogs | None
    finish_reason: Literal["stop", "length"] | None
    attention: ShownAttention | UnsetType = UNSET


class Completion(Struct, kw_only=True):
    """Texts after prompts; in a stream a piece of one, and the count of tokens at its end where it was asked for."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET


class Alternative(Struct, kw_only=True):
    """A token, its log-probability and its bytes, none where it adds nothing to a text."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatToken(Alternative, kw_only=True):
    """A token of an answer, next to the most probable ones at its place."""

    top_logprobs: list[Alternative]


class ChatLogs(Struct, kw_only=True):
    """Log-probabilities by token."""

    content: list[ChatToken]
    refusal: None


class ChatMessage(Struct, kw_only=True):
    """What the model answers."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Struct, kw_only=True):
    """An answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogs | None
    finish_reason: Literal["stop", "length"]
    attention: ShownAttention | UnsetType = UNSET


class ChatCompletion(Struct, kw_only=True):
    """The next turn of a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(Struct, kw_only=True):
    """What is new of an answer; its role comes first."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    refusal: UnsetType | None = UNSET


class ChatPieceChoice(Struct, kw_only=True):
    """A piece of an answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogs | None
    finish_reason: Literal["stop", "length"] | None
    attention: ShownAttention | UnsetType = UNSET


class ChatPiece(Struct, kw_only=True):
    """One event of a stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatPieceChoice]
    usage: Usage | UnsetType | None = UNSET


class Embedding(Struct, kw_only=True):
    """A vector: numbers, or in base64 their float32 bytes, the lowest first."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class ReadTokens(Struct, kw_only=True):
    """Tokens read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Struct, kw_only=True):
    """Vectors of texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: ReadTokens


class Tokens(Struct, kw_only=True):
    """Tokens of a text, and their texts where they were asked for."""

    tokens: list[int]
    count: int
    max_model_len: int | None
    token_strs: list[str] | None


class Detokenized(Struct, kw_only=True):
    """The text of tokens."""

    prompt: str


class Score(Struct, kw_only=True):
    """A class, or the name of a number, and its score."""

    label: str
    score: float


class Tagged(Struct, kw_only=True):
    """A span with its type, or a word with its tag; where it begins and ends in the text, in characters."""

    score: float
    word: str
    start: int
    end: int
    entity_group: str | UnsetType = UNSET
    entity: str | UnsetType = UNSET


class Passage(Struct, kw_only=True):
    """An answer, and where it is in the context; empty where there is none."""

    answer: str
    score: float
    start: int
    end: int


class Candidate(Struct, kw_only=True):
    """A token for a mask, and the text with it."""

    score: float
    token: int | None
    token_str: str
    sequence: str


class Translated(Struct, kw_only=True):
    """A translation."""

    translation_text: str


class Summarized(Struct, kw_only=True):
    """A summary."""

    summary_text: str


class Generated(Struct, kw_only=True):
    """A text that was written."""

    generated_text: str


class PromptToken(Struct, kw_only=True):
    """A token that was read, and its log-probability; none of the first."""

    id: int
    text: str
    logprob: float | None


class WrittenToken(Struct, kw_only=True):
    """A token that was written, and its log-probability; `special` where it adds nothing to a text."""

    id: int | None
    text: str
    logprob: float
    special: bool


Finish = Literal["length", "eos_token", "stop_sequence"]
"""Why a text ended: at its limit, by itself, or at a stop."""


class ContinuationDetails(Struct, kw_only=True):
    """How a text came about, token by token."""

    finish_reason: Finish
    generated_tokens: int
    seed: int | None
    prefill: list[PromptToken]
    tokens: list[WrittenToken]
    top_tokens: list[list[WrittenToken]] | UnsetType = UNSET
    best_of_sequences: list[ContinuationSequence] | UnsetType = UNSET


class ContinuationSequence(ContinuationDetails, kw_only=True):
    """One of the texts among which the best was chosen."""

    generated_text: str


class Continuation(Struct, kw_only=True):
    """A text that continues another."""

    generated_text: str
    details: ContinuationDetails | UnsetType = UNSET


class ContinuationEnd(Struct, kw_only=True):
    """How a stream came about."""

    finish_reason: Finish
    generated_tokens: int
    input_length: int
    seed: int | None


class ContinuationPiece(Struct, kw_only=True):
    """One event of a stream: a token, and what is new of the text with it; at the end all of the text."""

    index: int
    token: WrittenToken
    generated_text: str | None
    details: ContinuationEnd | None
    top_tokens: list[WrittenToken] | UnsetType = UNSET


Description = dict[str, Any]
"""This server's routes, as OpenAPI 3.1 describes them."""

Scores = list[list[Score]]
Ranked = list[Score]
Tags = list[Tagged | list[Tagged]]
Passages = Passage | list[Passage]
Candidates = list[Candidate | list[Candidate | list[Candidate]]]
Translations = list[Translated]
Summaries = list[Summarized]
Writings = list[Generated]
Continuations = list[Continuation]
Vectors = list[float | list[float]]
Similarities = list[float]
