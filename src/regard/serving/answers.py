"""The shapes of all answers, from which the routes are described; tests compare real answers with them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType


class Health(Struct, kw_only=True):
    """The web process answers."""

    status: Literal["ok"]
    version: str


class Readiness(Struct, kw_only=True):
    """Whether the engine answers, and how often it has been restarted."""

    ready: bool
    restarts: int


class Problem(Struct, kw_only=True):
    """An error: a sentence, the field it is about, and OpenAI's code for it; the last two are null where there are none."""

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
    """A served model: its task, its routes beyond OpenAI's, its maximum length, parameters and attention layers.

    `first_texts` are the texts that its studio shows at first. `languages` are the target languages of a multilingual translator.
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
    """All served models."""

    object: Literal["list"]
    data: list[ModelCard]


class CachedTokens(Struct, kw_only=True):
    """Prompt tokens whose keys and values came from the cache."""

    cached_tokens: int


class Usage(Struct, kw_only=True):
    """Numbers of tokens read and generated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class CompletionLogs(Struct, kw_only=True):
    """Log-probabilities by token; null for the first token of a prompt."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class AttentionWeights(Struct, kw_only=True):
    """Weights of one layer, (heads, rows, keys): as numbers, or as little-endian float32 in base64."""

    address: str
    kind: Literal["self", "cross"]
    heads: list[int]
    rows: list[int]
    query_tokens: list[str]
    key_tokens: list[str]
    weights: list[list[list[float]]] | str
    example: int | UnsetType = UNSET


class ShownAttention(Struct, kw_only=True):
    """The attention asked for: maps, with the name of each example where there are several; or the address of a page."""

    maps: list[AttentionWeights] | UnsetType = UNSET
    examples: list[str] | UnsetType = UNSET
    page: str | UnsetType = UNSET


class WithAttention(Struct, kw_only=True):
    """A task's answer together with the attention that was asked for."""

    answer: Any
    attention: ShownAttention


class CompletionChoice(Struct, kw_only=True):
    """A generated text; in a stream, the part that is new."""

    index: int
    text: str
    logprobs: CompletionLogs | None
    finish_reason: Literal["stop", "length"] | None
    attention: ShownAttention | UnsetType = UNSET


class Completion(Struct, kw_only=True):
    """Texts generated after prompts; in a stream, a piece of one, and the token counts at its end where they were asked for."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET


class Alternative(Struct, kw_only=True):
    """A token, its log-probability and its UTF-8 bytes; the bytes are null for a token that adds nothing to the text."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatToken(Alternative, kw_only=True):
    """A token of an answer, with the most probable tokens at its position."""

    top_logprobs: list[Alternative]


class ChatLogs(Struct, kw_only=True):
    """Log-probabilities by token."""

    content: list[ChatToken]
    refusal: None


class ChatMessage(Struct, kw_only=True):
    """The model's answer."""

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
    """The part of an answer that is new; the role comes first."""

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
    """An embedding: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class ReadTokens(Struct, kw_only=True):
    """Numbers of tokens read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Struct, kw_only=True):
    """Embeddings of texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: ReadTokens


class Tokens(Struct, kw_only=True):
    """Token ids of a text, and each token's text where it was asked for."""

    tokens: list[int]
    count: int
    max_model_len: int | None
    token_strs: list[str] | None


class Detokenized(Struct, kw_only=True):
    """The text of token ids, as /detokenize answers."""

    prompt: str


class Score(Struct, kw_only=True):
    """A class, or the name of a predicted number, and its score."""

    label: str
    score: float


class Tagged(Struct, kw_only=True):
    """An entity with its type, or a word with its tag; start and end are offsets in the text, in characters."""

    score: float
    word: str
    start: int
    end: int
    entity_group: str | UnsetType = UNSET
    entity: str | UnsetType = UNSET


class Passage(Struct, kw_only=True):
    """An answer and its start and end in the context, in characters; empty where there is no answer."""

    answer: str
    score: float
    start: int
    end: int


class Candidate(Struct, kw_only=True):
    """A predicted token for a mask, and the text with the mask filled."""

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
    """A generated text."""

    generated_text: str


class PromptToken(Struct, kw_only=True):
    """A token of the prompt and its log-probability; null for the first."""

    id: int
    text: str
    logprob: float | None


class WrittenToken(Struct, kw_only=True):
    """A generated token and its log-probability; `special` where it adds nothing to the text."""

    id: int | None
    text: str
    logprob: float
    special: bool


Finish = Literal["length", "eos_token", "stop_sequence"]
"""Why a text ended: at the length limit, at the end-of-sequence token, or at a stop sequence."""


class ContinuationDetails(Struct, kw_only=True):
    """The details of a generated text: why it ended, and its tokens."""

    finish_reason: Finish
    generated_tokens: int
    seed: int | None
    prefill: list[PromptToken]
    tokens: list[WrittenToken]
    top_tokens: list[list[WrittenToken]] | UnsetType = UNSET
    best_of_sequences: list[ContinuationSequence] | UnsetType = UNSET


class ContinuationSequence(ContinuationDetails, kw_only=True):
    """One of the texts from which the best was chosen."""

    generated_text: str


class Continuation(Struct, kw_only=True):
    """A text generated after a prompt."""

    generated_text: str
    details: ContinuationDetails | UnsetType = UNSET


class ContinuationEnd(Struct, kw_only=True):
    """The details of a streamed text, sent with its last event."""

    finish_reason: Finish
    generated_tokens: int
    input_length: int
    seed: int | None


class ContinuationPiece(Struct, kw_only=True):
    """One event of a stream: a token; the last event also has the whole text."""

    index: int
    token: WrittenToken
    generated_text: str | None
    details: ContinuationEnd | None
    top_tokens: list[WrittenToken] | UnsetType = UNSET


Description = dict[str, Any]
"""This server's routes in OpenAPI 3.1."""

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
