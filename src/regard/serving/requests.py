"""Bodies of OpenAI's API, strictly decoded: what each field means here, and which fields are refused by name."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from regard.serving.attention import Attention, Interventions
from regard.serving.bodies import WrongBody, read_body

MOST_TEXTS = 256
"""The most texts that one request may generate, over all its prompts."""

MOST_STOPS = 16
MOST_TOP = 20
LEAST_TEMPERATURE = 1e-5
DEEPEST = 32
"""The deepest nesting of lists and objects in template variables and in tool calls."""

ROLES = ("system", "developer", "user", "assistant", "tool")
OWN_VARIABLES = ("messages", "tools", "continues", "answer", "template", "tokenizer", "self", "add_generation_prompt")
"""Names that `chat_template_kwargs` may not set, because other fields set them."""

Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1, le=MOST_TEXTS)]
Top = Annotated[int, Meta(ge=0, le=MOST_TOP)]
Tokens = Annotated[int, Meta(ge=0)]
Stop = Annotated[str, Meta(min_length=1)]
Bias = Annotated[float, Meta(extra_json_schema={"minimum": -100, "maximum": 100})]
Biases = Annotated[dict[str, Bias], Meta(extra_json_schema={"propertyNames": {"pattern": "^[0-9]{1,9}$"}})]
Nothing = Annotated[Any, Meta(extra_json_schema={"type": "null"})]
"""A field that is refused by name unless it is null; the schema says null, and the error is its own sentence."""
Text = Annotated[str, Meta(extra_json_schema={"const": "text"})]
"""The only supported type of a part of a message, or of a response format."""
UNMIXED = {"minItems": 1, "anyOf": [{"items": {"type": "integer"}}, {"items": {"type": ["string", "array"]}}]}
"""A list of token ids, or of texts or lists of ids; given as a schema, since the class allows any mixture."""
Texts = str | Annotated[list[int | str | list[int]], Meta(extra_json_schema=UNMIXED)]
"""A text, its token ids, or several of either."""
FilledText = Annotated[str, Meta(extra_json_schema={"minLength": 1})]
FilledIds = Annotated[list[int], Meta(extra_json_schema={"minItems": 1})]
FilledTexts = FilledText | Annotated[list[int | FilledText | FilledIds], Meta(extra_json_schema=UNMIXED)]
"""A text, its token ids, or several of either, none of them empty."""


class BadRequest(Exception):
    """A request that cannot be served as the client sent it.

    Arguments:
        message: a sentence.
        parameter: the field it is about; None for the body as a whole.
        status: of HTTP.
        code: OpenAI's error code.
    """

    def __init__(self, message: str, parameter: str | None = None, *, status: int = 400, code: str | None = None):
        super().__init__(message)
        self.message = message
        self.parameter = parameter
        self.status = status
        self.code = code


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`include_usage` puts the token counts at the end of a stream. `include_obfuscation` has no effect."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Sampling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields that completions and chat completions share.

    `temperature` 0 is greedy decoding, in which `top_p`, `top_k` and `min_p` have no effect. `top_k`, `min_p` and
    `repetition_penalty` are additions to OpenAI's API. `user` names the user of a request: users take turns. `attention` asks
    for attention weights with each text, and `interventions` changes the model while it generates.
    """

    model: str
    frequency_penalty: Penalty | None = None
    logit_bias: Biases | None = None
    max_tokens: Tokens | None = None
    min_p: Share | None = None
    n: Count | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=MOST_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None
    top_p: Share | None = None
    user: str | None = None
    attention: Attention | None = None
    interventions: Interventions | None = None

    def settings(self) -> dict[str, Any]:
        """The fields of `GenerationSettings`."""
        if self.temperature and self.temperature < LEAST_TEMPERATURE:
            raise BadRequest(
                f"temperature is {self.temperature}; give 0 for the most probable token, or at least {LEAST_TEMPERATURE}",
                "temperature",
            )
        made: dict[str, Any] = {}
        temperature = 1.0 if self.temperature is None else self.temperature
        if temperature > 0:
            seed = secrets.randbits(62) if self.seed is None else self.seed % 2**63
            made |= {"sample": True, "seed": seed, "temperature": temperature}
            if self.top_p is not None and self.top_p < 1:
                made["top_p"] = max(self.top_p, 1e-9)
            if self.top_k is not None:
                made["top_k"] = self.top_k
            if self.min_p:
                made["min_p"] = self.min_p
        for name in ("presence_penalty", "frequency_penalty"):
            if getattr(self, name):
                made[name] = getattr(self, name)
        if self.repetition_penalty is not None and self.repetition_penalty != 1:
            made["repetition_penalty"] = self.repetition_penalty
        if self.logit_bias:
            made["logit_bias"] = _biases(self.logit_bias)
        return made

    def stops(self) -> list[str]:
        """The strings that end a text."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    def copies(self) -> int:
        """The number of texts to return for each prompt."""
        return 1 if self.n is None else self.n

    def ignored(self) -> list[str]:
        """The given fields that have no effect: streams are never padded, which `include_obfuscation` asks for."""
        obfuscated = self.stream_options is not None and self.stream_options.include_obfuscation
        return ["stream_options.include_obfuscation"] if obfuscated else []

    def usage_at_end(self) -> bool:
        """Whether a stream ends with the token counts."""
        if self.stream_options is None:
            return False
        if not self.stream:
            raise BadRequest("stream_options is only allowed when stream is true", "stream_options")
        return bool(self.stream_options.include_usage)


class CompletionRequest(Sampling, kw_only=True):
    """The body of /v1/completions."""

    prompt: Texts | None = None
    best_of: Count | None = None
    echo: bool | None = None
    logprobs: Top | None = None
    suffix: str | None = None

    def prompts(self) -> list[str | list[int]]:
        """Each prompt; an empty one starts a text."""
        return [""] if self.prompt is None else _texts("prompt", self.prompt)

    def check(self) -> None:
        """Refuse values that cannot be served."""
        if self.suffix:
            raise BadRequest("suffix: text cannot be inserted before a suffix here; leave it out", "suffix")
        best = self.copies() if self.best_of is None else self.best_of
        if best < self.copies():
            raise BadRequest(
                f"best_of is {best} and n is {self.copies()}; best_of must be at least n",
                "best_of",
            )
        if best > self.copies() and self.stream:
            raise BadRequest("best_of: the best texts are only known at the end; leave out stream", "best_of")

    def generated(self) -> int:
        """The number of texts to generate for each prompt."""
        return self.copies() if self.best_of is None else self.best_of


class Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of a message; only text is supported."""

    type: Text
    text: str | None = None
    image_url: Nothing = None
    input_audio: Nothing = None
    file: Nothing = None
    refusal: Nothing = None


class Message(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A message of a conversation. The role `developer`, which replaces `system` in OpenAI's API, is treated as `system`."""

    role: Annotated[str, Meta(extra_json_schema={"enum": list(ROLES)})]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    refusal: Nothing = None
    audio: Nothing = None
    function_call: Nothing = None
    reasoning_content: str | None = None

    def plain(self, place: int) -> dict[str, Any]:
        """The message as a chat template receives it."""
        where = f"messages[{place}]"
        if self.role not in ROLES:
            raise BadRequest(f"{where}.role is {self.role[:40]!r}; choose from {', '.join(ROLES)}", f"{where}.role")
        _shallow(f"{where}.tool_calls", self.tool_calls)
        for name in ("refusal", "audio", "function_call"):
            if getattr(self, name) is not None:
                raise BadRequest(f"{where}.{name} is not supported; leave it out", f"{where}.{name}")
        if isinstance(self.content, list):
            for number, part in enumerate(self.content):
                others = (part.image_url, part.input_audio, part.file, part.refusal)
                if part.type != "text" or part.text is None or any(other is not None for other in others):
                    here = f"{where}.content[{number}]"
                    raise BadRequest(f"{here} is of the type {part.type!r}; models here read text only", here)
            content: str | None = "".join(part.text or "" for part in self.content)
        else:
            content = self.content
        made: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": content}
        for name in ("name", "tool_calls", "tool_call_id", "reasoning_content"):
            if getattr(self, name) is not None:
                made[name] = getattr(self, name)
        return made


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The format of an answer; only plain text is supported."""

    type: Text
    json_schema: Nothing = None


HINTS = (
    "metadata",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
)
"""Fields of chat completions that do not change an answer: labels for storage, cache limits, speed and price. They have no
effect, and the header Regard-Ignored of the answer lists them."""

UNSUPPORTED_IN_CHAT: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "reasoning_effort": ("none",),
    "store": (False,),
    "tool_choice": ("none",),
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Fields of chat completions that are not supported, each with the values that are accepted because they ask for nothing."""


class ChatRequest(Sampling, kw_only=True):
    """The body of /v1/chat/completions.

    `chat_template_kwargs`, an addition to OpenAI's API, are variables of the template. The fields in `HINTS` have no effect, and
    the header Regard-Ignored lists them; so are functions that may not be called, with `tool_choice` or `function_call` none.
    """

    harmless: ClassVar[Mapping[str, tuple[Any, ...]]] = UNSUPPORTED_IN_CHAT

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Top | None = None
    response_format: ResponseFormat | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    audio: Any = None
    function_call: Any = None
    functions: Any = None
    modalities: Any = None
    moderation: Any = None
    parallel_tool_calls: Any = None
    prediction: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    reasoning_effort: Any = None
    service_tier: Any = None
    store: Any = None
    tool_choice: Any = None
    tools: Any = None
    verbosity: Any = None
    web_search_options: Any = None

    def check(self) -> None:
        """Refuse values that cannot be served."""
        uncalled = self._uncalled()
        for name, harmless in self.harmless.items():
            value = getattr(self, name)
            # types are compared too, since 0 == False
            if (
                value is not None
                and name not in uncalled
                and (type(value), value) not in ((type(each), each) for each in harmless)
            ):
                choices = " or ".join(json.dumps(each) for each in harmless)
                raise BadRequest(
                    f"{name} is not supported; leave it out" + (f", or send {choices}" if choices else ""), name
                )
        form = self.response_format
        if form is not None and (form.type != "text" or form.json_schema is not None):
            raise BadRequest(
                f"response_format is {form.type!r}, or has a schema; only plain text is written here", "response_format"
            )
        wrong = next((name for name in self.chat_template_kwargs or {} if name in OWN_VARIABLES), None)
        if wrong is not None:
            raise BadRequest(
                f"chat_template_kwargs: {wrong} is set by another field; leave it out", "chat_template_kwargs"
            )
        _shallow("chat_template_kwargs", self.chat_template_kwargs)
        if self.top_logprobs is not None and not self.logprobs:
            raise BadRequest("top_logprobs needs logprobs to be true", "top_logprobs")
        most, also = self.max_completion_tokens, self.max_tokens
        if most is not None and also is not None and most != also:
            raise BadRequest(f"max_tokens is {also} and max_completion_tokens {most}; give one of them", "max_tokens")
        for name in ("max_tokens", "max_completion_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadRequest(f"{name} is {value}; give at least 1", name)

    def ignored(self) -> list[str]:
        """The given fields that have no effect."""
        return super().ignored() + [name for name in HINTS if getattr(self, name) is not None] + self._uncalled()

    def _uncalled(self) -> list[str]:
        """Lists of functions that the choice `none` forbids to call."""
        pairs = (("tools", self.tool_choice, self.tools), ("functions", self.function_call, self.functions))
        return [name for name, choice, given in pairs if given and choice == "none"]

    def maximum(self) -> int | None:
        """The most tokens of an answer; None for as many as the model has positions for."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class EmbeddingRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of /v1/embeddings. `dimensions` shortens the embeddings, and normalizes them again where they had length one."""

    model: str
    input: FilledTexts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    user: str | None = None

    def texts(self) -> list[str | list[int]]:
        """Each text or list of token ids."""
        return _texts("input", self.input)


Side = Literal["source", "target"]
"""Which tokenizer of a translator: that of the source or of the target language."""


class TokenizeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of /tokenize. `add_special_tokens` adds the tokens that begin a prompt.

    `side` names one of a translator's tokenizers; it is required where the translator has two.
    """

    model: str
    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool = False
    side: Side | None = None


class DetokenizeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of /detokenize; `side` as for /tokenize."""

    model: str
    tokens: list[Tokens]
    side: Side | None = None


def read(body: bytes, wanted: type[Any]) -> Any:
    """Decode a body into one of these requests.

    Raises:
        BadRequest: where `read_body` refuses it.
    """
    try:
        return read_body(body, wanted)
    except WrongBody as error:
        raise BadRequest(str(error), error.field) from error


def _texts(name: str, given: Texts) -> list[str | list[int]]:
    """A text or several as a list."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise BadRequest(f"{name} is an empty list; give a text or token ids", name)
    if all(isinstance(each, int) for each in given):
        return [[each for each in given if isinstance(each, int)]]
    texts = [each for each in given if not isinstance(each, int)]
    if len(texts) < len(given):
        raise BadRequest(f"{name} has numbers and texts; give a list of texts, or of lists of token ids", name)
    return texts


def _shallow(name: str, value: Any, levels: int = DEEPEST) -> None:
    if not levels:
        raise BadRequest(f"{name} is nested more than {DEEPEST} levels deep", name)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _shallow(name, part, levels - 1)


def _biases(given: Mapping[str, float]) -> list[tuple[int, float]]:
    biases = []
    for name, value in given.items():
        if not name.isdecimal() or not name.isascii() or len(name) > 9:
            raise BadRequest(f"logit_bias: {name[:40]!r} is no token id", "logit_bias")
        if not -100 <= value <= 100:
            raise BadRequest(f"logit_bias of {name} is {value}; give a number from -100 to 100", "logit_bias")
        biases.append((int(name), value))
    return biases
