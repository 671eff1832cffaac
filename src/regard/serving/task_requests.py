"""The requests that `huggingface_hub.InferenceClient` sends for a task, read strictly.

Every parameter that it can send is a field. One that no model here follows is a `NotFollowed`, and refused by its name; what some
models do not follow is refused where they answer. Nothing here needs torch, or a model.
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
"""Tokens that a search writes: some models have no limit of their own, and while one request is searched for, those of other
tasks wait."""
Length = Annotated[int, Meta(ge=0, le=MOST_LENGTH)]
NotFollowed = Annotated[Any, Meta(extra={"followed": False}, extra_json_schema={"type": "null"})]
"""A parameter that no model here follows; `decode` refuses it unless it is null."""
Never = Annotated[bool | None, Meta(extra_json_schema={"enum": [False, None]})]
"""A switch that no model here follows; `decode` refuses it where it is true."""
Transform = Literal["softmax", "sigmoid", "none"]
Truncation = Literal["do_not_truncate", "longest_first", "only_first", "only_second"]


class NoParameters(Strict):
    """Of a task that has none."""


class TextPair(Strict):
    """Two texts that are read together, or one."""

    text: Text
    text_pair: Text | None = None


class ScoreParameters(Strict):
    """Of classifiers: how many classes are told, and how scores are made, which has to be the model's own way."""

    function_to_apply: Transform | None = None
    top_k: Count | None = None


class TaskRequest(Strict):
    """What may be next to the inputs of every task.

    `attention` asks for weights: the answer is then an object of both. `interventions` asks for the answer of a changed model.
    """

    attention: Attention | None = None
    interventions: Interventions | None = None


class ClassificationRequest(TaskRequest, kw_only=True):
    """A text, a pair of texts, or several of either."""

    inputs: Text | TextPair | Annotated[list[Text | TextPair], Meta(min_length=1)]
    parameters: ScoreParameters | None = None


MOST_LABELS = 256


class ZeroShotParameters(Strict):
    """Labels, and the sentence that says of a text that one of them fits it.

    In `hypothesis_template` the braces `{}` stand for the label. With `multi_label` each label is judged by itself, else they are
    weighed against each other.
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
    """Of taggers: how tokens become entities, by the model's own rules where it is not said; and types that are left out.

    Without `aggregation_strategy`, `ignore_labels` names `O` too where the tags mark spans.
    """

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = None
    ignore_labels: list[str] | None = None
    stride: NotFollowed = None


class TextsRequest(TaskRequest, kw_only=True):
    """A text, or several."""

    inputs: Text | Annotated[list[Text], Meta(min_length=1)]


class TagRequest(TextsRequest):
    """What is to be tagged."""

    parameters: TagParameters | None = None


class Asked(Strict):
    """A question, and the text in which the answer is."""

    question: Text
    context: Text


class AnswerParameters(Strict):
    """Of question answering: answers wanted, the most tokens of one, and whether there may be none."""

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
    """Of masks: how many candidates are told (5), and which words are candidates."""

    top_k: Count | None = None
    targets: Annotated[list[Text], Meta(min_length=1)] | None = None


class FillRequest(TextsRequest):
    """What holds masks."""

    parameters: FillParameters | None = None


class GenerateParameters(Strict):
    """How to write: the fields of a generation_config.json that can be followed, and `seed`, which draws start from."""

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
    """Of models that write: what becomes of a text that is too long, and how to write."""

    truncation: Truncation | None = None
    generate_parameters: GenerateParameters | None = None
    clean_up_tokenization_spaces: NotFollowed = None


class WriteRequest(TextsRequest):
    """What is read for something to be written."""

    parameters: WriteParameters | None = None


class TextGenerationParameters(Strict):
    """How a text continues: what text-generation-inference calls settings means here what it means there.

    The most probable tokens are taken, unless `do_sample` is true, or is left out and `temperature`, `top_k` or `top_p` is there.
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
        """Whether tokens are drawn.

        Raises:
            InputError: for what changes nothing where none are.
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
    """The same, and the languages: the client sends both or none."""

    src_lang: str | None = None
    tgt_lang: Text | None = None


class TranslationRequest(TextsRequest):
    """What is to be translated."""

    parameters: TranslationParameters | None = None


class Compared(Strict):
    """A text, and others that it is compared with."""

    source_sentence: Text
    sentences: Annotated[list[Text], Meta(min_length=1)]


class SimilarityRequest(TaskRequest, kw_only=True):
    """Texts to compare."""

    inputs: Compared
    parameters: NoParameters | None = None


class VectorRequest(TextsRequest):
    """What vectors are made of. The parameters are next to the inputs."""

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
    """The bytes of an image: the body itself, or in base64."""

    inputs: Annotated[bytes, Meta(min_length=1)]


class ImageClassRequest(ImageRequest):
    """An image to classify."""

    parameters: ScoreParameters | None = None


class CaptionParameters(Strict):
    """How to write a caption."""

    max_new_tokens: Length | None = None
    generation_parameters: GenerateParameters | None = None


class CaptionRequest(ImageRequest):
    """An image to caption."""

    parameters: CaptionParameters | None = None


JSON, BYTES = "application/json", "application/octet-stream"


def has_fields(request: type[Strict], body: Mapping[str, Any]) -> bool:
    """Whether a kind of request has all fields of a body, of its inputs and of its parameters.

    >>> has_fields(FillRequest, {"inputs": "a [MASK]", "parameters": {"top_k": 3}})
    True
    >>> has_fields(FillRequest, {"inputs": {"question": "Who?", "context": "Ann."}})
    False
    """
    parts = {"": body, "inputs": body.get("inputs"), "parameters": body.get("parameters")}
    return all(set(part) <= {*field_names(request, place)} for place, part in parts.items() if isinstance(part, dict))


def read_request(request: type[Strict], body: bytes, content_type: str) -> Any:
    """The request in a body.

    Arguments:
        request: its class.
        body: a JSON object; or, where an image is asked for, an image, if the content type says so or says nothing.
        content_type: of the body; empty where none was sent.

    Raises:
        InputError: for what is no such request: a sentence that names the field.

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
            raise InputError(f"{name}: is {value!r:.60}, and is not followed here; leave it out")
