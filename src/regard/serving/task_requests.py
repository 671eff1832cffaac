"""The requests that `huggingface_hub.InferenceClient` sends for a task, strictly decoded.

Every parameter that it can send is a field. One that no model here supports is a `NotFollowed`, and refused by name; one that
only some models support is refused where those that do not would answer. This module needs neither torch nor a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from regard.errors import InputError
from regard.serving.attention import Attention, Interventions, Strict
from regard.serving.bodies import field_names, read_body
from regard.serving.requests import LEAST_TEMPERATURE, MOST_STOPS, MOST_TEXTS, Penalty, Stop, Top

Text = Annotated[str, Meta(pattern=r"\S")]
Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
MOST_LENGTH = 1024
"""The most tokens that a search generates: some models have no limit of their own, and while one request is searched, those of
other tasks wait."""
Length = Annotated[int, Meta(ge=0, le=MOST_LENGTH)]
NotFollowed = Annotated[Any, Meta(extra={"followed": False}, extra_json_schema={"type": "null"})]
"""A parameter that no model here supports; `decode` refuses it unless it is null."""
Never = Annotated[bool | None, Meta(extra_json_schema={"enum": [False, None]})]
"""A switch that no model here supports; `decode` refuses it where it is true."""
Transform = Literal["softmax", "sigmoid", "none"]
Truncation = Literal["do_not_truncate", "longest_first", "only_first", "only_second"]


class NoParameters(Strict):
    """The parameters of a task that has none."""


class TextPair(Strict):
    """One text, or two that are read together."""

    text: Text
    text_pair: Text | None = None


class ScoreParameters(Strict):
    """Classifiers: how many classes to return, and the function from logits to scores, which must be the model's own."""

    function_to_apply: Transform | None = None
    top_k: Count | None = None


class TaskRequest(Strict):
    """Fields that every task has besides its inputs.

    `attention` asks for weights: the response is then an object with `answer` and `attention`. `interventions` changes the model.
    """

    attention: Attention | None = None
    interventions: Interventions | None = None


class ClassificationRequest(TaskRequest, kw_only=True):
    """A text, a pair of texts, or several of either."""

    inputs: Text | TextPair | Annotated[list[Text | TextPair], Meta(min_length=1)]
    parameters: ScoreParameters | None = None


MOST_LABELS = 256


class ZeroShotParameters(Strict):
    """Candidate labels, and the hypothesis: a sentence that states that a label fits the text.

    `{}` in `hypothesis_template` stands for the label. With `multi_label` each label is scored independently; without it, the
    scores are a softmax over the labels.
    """

    candidate_labels: Annotated[
        list[Text], Meta(min_length=1, max_length=MOST_LABELS, extra_json_schema={"uniqueItems": True})
    ]
    hypothesis_template: Annotated[str | None, Meta(extra_json_schema={"pattern": r"^[^{}]*\{\}[^{}]*$"})] = None
    multi_label: bool | None = None


class ZeroShotRequest(TaskRequest, kw_only=True):
    """A text to classify by labels that the model was not trained for."""

    inputs: Text
    parameters: ZeroShotParameters


class TagParameters(Strict):
    """Taggers: how tokens are aggregated to entities, by default with the model's own tag scheme; and the types to leave out.

    Without `aggregation_strategy`, `ignore_labels` must contain `O` where the tags mark spans.
    """

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = None
    ignore_labels: list[str] | None = None
    stride: NotFollowed = None


class TextsRequest(TaskRequest, kw_only=True):
    """A text, or several."""

    inputs: Text | Annotated[list[Text], Meta(min_length=1)]


class TagRequest(TextsRequest):
    """A text to tag, or several."""

    parameters: TagParameters | None = None


class Asked(Strict):
    """A question, and the context in which the answer is."""

    question: Text
    context: Text


class AnswerParameters(Strict):
    """Question answering: the number of answers, the most tokens of an answer, and whether "no answer" is allowed."""

    top_k: Count | None = None
    max_answer_len: Count | None = None
    handle_impossible_answer: bool | None = None
    align_to_words: Never = None
    doc_stride: NotFollowed = None
    max_question_len: NotFollowed = None
    max_seq_len: NotFollowed = None


class AnswerRequest(TaskRequest, kw_only=True):
    """One question."""

    inputs: Asked
    parameters: AnswerParameters | None = None


class FillParameters(Strict):
    """Mask filling: how many candidates to return (5), and the words to choose them from."""

    top_k: Count | None = None
    targets: Annotated[list[Text], Meta(min_length=1)] | None = None


class FillRequest(TextsRequest):
    """A text with masks, or several."""

    parameters: FillParameters | None = None


class GenerateParameters(Strict):
    """Generation settings: the supported fields of a generation_config.json, and `seed`, for sampling."""

    max_new_tokens: Length | None = None
    min_new_tokens: Length | None = None
    max_length: Length | None = None
    min_length: Length | None = None
    num_beams: Annotated[int, Meta(ge=1, le=64)] | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: Whole | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: Whole | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: Whole | None = None
    epsilon_cutoff: NotFollowed = None
    eta_cutoff: NotFollowed = None
    num_beam_groups: NotFollowed = None
    num_return_sequences: NotFollowed = None
    penalty_alpha: NotFollowed = None
    typical_p: NotFollowed = None
    use_cache: NotFollowed = None


class WriteParameters(Strict):
    """Text generation: whether a text that is too long is truncated, and generation settings."""

    truncation: Truncation | None = None
    generate_parameters: GenerateParameters | None = None
    clean_up_tokenization_spaces: NotFollowed = None


class WriteRequest(TextsRequest):
    """A text, or several, for which text is generated."""

    parameters: WriteParameters | None = None


class TextGenerationParameters(Strict):
    """Generation settings with the names and meanings of text-generation-inference.

    Decoding is greedy, unless `do_sample` is true, or it is left out and `temperature`, `top_k` or `top_p` is given.
    """

    adapter_id: NotFollowed = None
    best_of: Annotated[int, Meta(ge=1, le=MOST_TEXTS)] | None = None
    decoder_input_details: bool | None = None
    details: bool | None = None
    do_sample: bool | None = None
    frequency_penalty: Penalty | None = None
    grammar: NotFollowed = None
    max_new_tokens: Count | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    return_full_text: bool | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    stop: Annotated[list[Stop], Meta(max_length=MOST_STOPS)] | None = None
    temperature: Annotated[float, Meta(ge=LEAST_TEMPERATURE, le=100)] | None = None
    top_k: Count | None = None
    top_n_tokens: Top | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    truncate: Count | None = None
    typical_p: NotFollowed = None
    watermark: Never = None

    @property
    def samples(self) -> bool:
        """Whether tokens are sampled.

        Raises:
            InputError: for a setting of sampling with `do_sample` false.
        """
        given = [name for name in ("temperature", "top_k", "top_p") if getattr(self, name) is not None]
        if self.do_sample is False and given:
            raise InputError(f"parameters.{given[0]}: changes nothing without do_sample; leave one of them out")
        return bool(given or self.do_sample)


class TextGenerationRequest(TaskRequest, kw_only=True):
    """A text to continue; with `stream` token by token."""

    inputs: str
    parameters: TextGenerationParameters | None = None
    stream: bool | None = None


class TranslationParameters(WriteParameters):
    """Generation settings and the languages; the client sends both languages or none."""

    src_lang: str | None = None
    tgt_lang: Text | None = None


class TranslationRequest(TextsRequest):
    """A text to translate, or several."""

    parameters: TranslationParameters | None = None


class Compared(Strict):
    """A text, and the texts that it is compared with."""

    source_sentence: Text
    sentences: Annotated[list[Text], Meta(min_length=1)]


class SimilarityRequest(TaskRequest, kw_only=True):
    """Texts to compare by the cosine similarity of their embeddings."""

    inputs: Compared
    parameters: NoParameters | None = None


class VectorRequest(TextsRequest):
    """Texts to embed. The parameters are next to the inputs."""

    parameters: NoParameters | None = None
    normalize: bool | None = None
    prompt_name: str | None = None
    truncate: bool | None = None
    truncation_direction: Annotated[
        Literal["left", "right"] | None, Meta(extra_json_schema={"enum": ["right", None]})
    ] = None
    encoding_format: Annotated[Literal["float", "base64"] | None, Meta(extra_json_schema={"enum": ["float", None]})] = (
        None
    )
    dimensions: NotFollowed = None


class ImageRequest(TaskRequest, kw_only=True):
    """An image: its bytes as the body, or in base64."""

    inputs: Annotated[bytes, Meta(min_length=1)]


class ImageClassRequest(ImageRequest):
    """An image to classify."""

    parameters: ScoreParameters | None = None


class CaptionParameters(Strict):
    """Settings of captioning."""

    max_new_tokens: Length | None = None
    generation_parameters: GenerateParameters | None = None


class CaptionRequest(ImageRequest):
    """An image to caption."""

    parameters: CaptionParameters | None = None


JSON, BYTES = "application/json", "application/octet-stream"


def has_fields(request: type[Strict], body: Mapping[str, Any]) -> bool:
    """Whether a kind of request has all fields of a body, including those of its inputs and its parameters.

    >>> has_fields(FillRequest, {"inputs": "a [MASK]", "parameters": {"top_k": 3}})
    True
    >>> has_fields(FillRequest, {"inputs": {"question": "Who?", "context": "Ann."}})
    False
    """
    parts = {"": body, "inputs": body.get("inputs"), "parameters": body.get("parameters")}
    return all(set(part) <= {*field_names(request, place)} for place, part in parts.items() if isinstance(part, dict))


def read_request(request: type[Strict], body: bytes, content_type: str) -> Any:
    """Decode the request in a body.

    Arguments:
        request: its class.
        body: a JSON object; for a task on images, also an image, unless the content type is JSON.
        content_type: of the body; empty where none was sent.

    Raises:
        InputError: for a body that is no such request; the sentence names the field.

    >>> read_request(FillRequest, b'{"inputs": "a [MASK]", "parameters": {"topk": 3}}', "application/json")
    Traceback (most recent call last):
        ...
    regard.serving.bodies.WrongBody: parameters: there is no field 'topk'; did you mean 'top_k'?
    """
    kind = content_type.partition(";")[0].strip().lower()
    if issubclass(request, ImageRequest) and kind != JSON:
        if kind not in ("", BYTES) and not kind.startswith("image/"):
            raise InputError(f"the content type is {kind!r:.60}; send an image, or its base64 as {JSON}")
        if not body:
            raise InputError("the body is empty; send the bytes of an image")
        return request(inputs=body)
    if kind != JSON:
        raise InputError(f"the content type is {kind!r:.60}; send {JSON}")
    found = read_body(body, request)
    _refuse_not_followed(found, "")
    return found


def _refuse_not_followed(given: Strict, where: str) -> None:
    for field in msgspec.structs.fields(given):
        value, name = getattr(given, field.name), f"{where}{field.name}"
        if isinstance(value, Strict):
            _refuse_not_followed(value, f"{name}.")
        elif (field.type == NotFollowed and value is not None) or (field.type == Never and value):
            raise InputError(f"{name}: is {value!r:.60}, and is not supported here; leave it out")
