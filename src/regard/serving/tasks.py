"""The tasks of Hugging Face's inference API: the requests of `huggingface_hub.InferenceClient`, and answers in its shapes.

| task of the package | route |
|---|---|
| classification, multi_label_classification, regression, multi_output_regression | text-classification |
| classification of pairs by entailment, language_modelling | zero-shot-classification |
| language_modelling, text_to_text | text-generation |
| tagging | token-classification |
| question_answering | question-answering |
| masked_language_modelling | fill-mask |
| translation | translation; and summarization, unless it is multilingual: a BART for summaries opens as a translator |
| text_to_text | text2text-generation, and summarization where one of its prefixes is for summaries |
| span_corruption | text2text-generation |
| denoising | text2text-generation |
| copying | text2text-generation: rows of zeros and ones, separated by spaces |
| sentence_embedding | feature-extraction, sentence-similarity |
| image_classification | image-classification |
| captioning | image-to-text |

A parameter has its effect, or is refused by name; none is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from regard.errors import InputError, nearest
from regard.reading import as_object, parse_json
from regard.serving.answers import (
    Candidates,
    ContinuationPiece,
    Continuations,
    Passages,
    Ranked,
    Scores,
    Similarities,
    Summaries,
    Tags,
    Translations,
    Vectors,
    Writings,
)
from regard.serving.entities import aggregated, type_of
from regard.serving.task_requests import (
    AnswerParameters,
    AnswerRequest,
    CaptionParameters,
    CaptionRequest,
    ClassificationRequest,
    FillParameters,
    FillRequest,
    GenerateParameters,
    ImageClassRequest,
    ImageRequest,
    ScoreParameters,
    SimilarityRequest,
    TagParameters,
    TagRequest,
    TaskRequest,
    TextGenerationRequest,
    TextPair,
    Transform,
    TranslationRequest,
    VectorRequest,
    WriteRequest,
    ZeroShotRequest,
    has_fields,
    read_request,
)
from regard.serving.task_writing import (
    continued,
    generated,
    settings_of,
    several,
    summarized,
    summary_part,
    translated,
)
from regard.serving.zero_shot import entailment_of, zero_shot

# What needs torch is imported where it is used: reading requests does not.
if TYPE_CHECKING:
    import numpy as np

    from regard.tasks.captioning import Captioner
    from regard.tasks.image_classification import ImageClassifierPredictor
    from regard.tasks.labelled import LabelledPredictor
    from regard.tasks.masked_language_modelling import MaskedLanguageModel
    from regard.tasks.predictor import Predictor
    from regard.tasks.question_answering import QuestionAnswerer
    from regard.tasks.sentence_embedding import SentenceEncoder
    from regard.tasks.tagging import Tagger


# --- answers ----------------------------------------------------------------------------------------------


def _as_asked(inputs: Any, answers: Sequence[Any]) -> Any:
    """The answers as a list where several inputs were given, else the single answer."""
    return list(answers) if isinstance(inputs, list) else answers[0]


OWN_TRANSFORM: Mapping[str, Transform] = {
    "classification": "softmax",
    "multi_label_classification": "sigmoid",
    "regression": "none",
    "multi_output_regression": "none",
    "image_classification": "softmax",
}
"""By task, the function from logits to scores."""


def _scores(predictor: Predictor[Any], names: Iterable[str], scores: Iterable[float], asked: ScoreParameters) -> Any:
    """Classes and their scores, highest first."""
    own = OWN_TRANSFORM[predictor.task.name]
    if asked.function_to_apply not in (None, own):
        raise InputError(
            f"parameters.function_to_apply: is {asked.function_to_apply!r}, and the model's is {own!r}; leave it out"
        )
    rows = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    return sorted(rows, key=lambda row: -row["score"])[: asked.top_k]


NO_LIMIT = 1 << 40


def _refuse_long(lengths: Iterable[int], maximum: int, cure: str) -> None:
    for number, length in enumerate(lengths, start=1):
        if length > maximum:
            raise InputError(f"inputs: text {number} has {length:,} tokens and the model reads {maximum:,}; {cure}")


def _classified(predictor: LabelledPredictor[Any], request: ClassificationRequest) -> list[list[dict[str, Any]]]:
    """A list of scores for each text, even for a single text."""
    from regard.tasks.labelled import joined

    task, texts = predictor.task, []
    for given in several(request.inputs):
        pair = given if isinstance(given, TextPair) else TextPair(text=given)
        if task.pairs is not None and task.pairs != (pair.text_pair is not None):
            wanted = (
                "two texts; give an object with text and text_pair" if task.pairs else "one text; leave text_pair out"
            )
            raise InputError(f"inputs: the model reads {wanted}")
        texts.append(pair.text if pair.text_pair is None else (pair.text, pair.text_pair))
    inputs = joined(task, texts, pairs=task.pairs, maximum=NO_LIMIT)
    _refuse_long((len(each.ids) for each in inputs), predictor.maximum_length, "shorten it")
    asked = request.parameters or ScoreParameters()
    return [_scores(predictor, task.named or ("value",), row, asked) for row in predictor.values(inputs).tolist()]


def _tagged(predictor: Tagger, request: TagRequest) -> Any:
    """Tags or entities: by the model's own tag scheme, or by the aggregation strategy that is asked for."""
    asked, task = request.parameters or TagParameters(), predictor.task
    how = asked.aggregation_strategy
    by_tag = how == "none" if how is not None else task.scheme is None
    key = "entity_group" if how != "none" else "entity"
    types = [type_of(tag) for tag in task.tags]
    known = list(task.tags) if by_tag else list(dict.fromkeys(types))
    ignored = ["O"] if asked.ignore_labels is None else asked.ignore_labels
    for label in asked.ignore_labels or ():
        if label not in known:
            raise InputError(f"parameters.ignore_labels: the model has no {label!r:.60}; {nearest(label, known)}")
    if how is None and not by_tag and "O" not in ignored:
        raise InputError(
            "parameters.ignore_labels: words outside of spans are only returned with an aggregation_strategy; add 'O'"
        )
    if how is not None:
        texts = several(request.inputs)
        answers = [[row for row in aggregated(predictor, text, how) if row[key] not in ignored] for text in texts]
        return _as_asked(request.inputs, answers)

    def row(label: str, word: str, score: float, start: int, end: int) -> dict[str, Any]:
        return {key: label, "score": score, "word": word, "start": start, "end": end}

    answers = []
    for found in predictor.tag_batch(several(request.inputs)):
        if by_tag:
            each = zip(found.tags, found.words, found.probabilities, found.spans, strict=True)
            rows = [row(tag, word, score, *span) for tag, word, score, span in each]
        else:
            rows = [row(each.type, each.text, each.probability, each.start, each.end) for each in found.entities]
        answers.append([each for each in rows if each[key] not in ignored])
    return _as_asked(request.inputs, answers)


def _answered(predictor: QuestionAnswerer, request: AnswerRequest) -> Any:
    """One answer, or a list where several are asked for; "no answer" is the empty text."""
    from regard.tasks.question_answering import QuestionAnswerer

    asked, may_be_none = request.parameters or AnswerParameters(), predictor.task.unanswerable
    if asked.handle_impossible_answer and may_be_none is False:
        raise InputError("parameters.handle_impossible_answer: is true, and the model always answers; leave it out")
    if asked.max_answer_len is not None:
        task = replace(predictor.task, maximum_answer=asked.max_answer_len)
        predictor = QuestionAnswerer(predictor.model, task, metrics=predictor.metrics)
    count = asked.top_k or 1
    threshold = 0.0 if asked.handle_impossible_answer and may_be_none is None else None
    found = predictor.answer(request.inputs.question, request.inputs.context, n_best=count, threshold=threshold)
    rows = [
        {"answer": each.text, "score": each.probability, "start": each.start, "end": each.end}
        for each in found.passages
    ]
    if found.start is None and (asked.handle_impossible_answer is not False or not rows):
        rows.insert(0, {"answer": "", "score": found.probability, "start": 0, "end": 0})
    return rows[0] if count == 1 else rows[:count]


def _filled(predictor: MaskedLanguageModel, request: FillRequest) -> Any:
    """The candidates for the mask, or for each of several masks."""
    asked, tokenizer = request.parameters or FillParameters(), predictor.task.tokenizer
    answers = []
    for found in predictor.fill_batch(several(request.inputs), asked.top_k or 5, targets=asked.targets):
        masks = []
        for candidates in found.masks:
            rows = []
            for each in candidates:
                index = tokenizer.find(each.token)
                plain = "" if index is None or each.token.startswith("##") else tokenizer.decode([index])
                rows.append(
                    {
                        "score": each.probability,
                        "token": index,
                        "token_str": plain or each.token,
                        "sequence": each.text,
                    }
                )
            masks.append(rows)
        answers.append(masks[0] if len(masks) == 1 else masks)
    return _as_asked(request.inputs, answers)


def _refuse_long_sentences(predictor: SentenceEncoder, texts: Sequence[str], prompt: str | None, cure: str) -> None:
    encoded = predictor.task.encode(texts, maximum=NO_LIMIT, prompt=prompt)
    _refuse_long(map(len, encoded), predictor.maximum_length, cure)


def _vectors(predictor: SentenceEncoder, request: VectorRequest) -> Any:
    """The embedding of a text, or a list of embeddings."""
    from regard.embeddings.pooling import unit

    if request.truncation_direction == "left":
        raise InputError("truncation_direction: is 'left', and texts are truncated at their end; give 'right'")
    if request.encoding_format == "base64":
        raise InputError("encoding_format: is 'base64', and embeddings are returned as lists of numbers; give 'float'")
    prompts = list(predictor.task.prompts)
    if request.prompt_name is not None and request.prompt_name not in prompts:
        known = nearest(request.prompt_name, prompts) if prompts else "leave it out"
        raise InputError(f"prompt_name: the model has no prompt {request.prompt_name!r:.60}; {known}")
    texts = several(request.inputs)
    if not request.truncate:
        _refuse_long_sentences(predictor, texts, request.prompt_name, "shorten it, or set truncate to true")
    if request.normalize is False and predictor.task.normalise:
        predictor = predictor.pooled(normalise=False)
    vectors = predictor.embed(texts, prompt=request.prompt_name)
    return _as_asked(request.inputs, (unit(vectors) if request.normalize else vectors).tolist())


def _similarities(predictor: SentenceEncoder, request: SimilarityRequest) -> list[float]:
    """The cosine similarity of the source's embedding with each of the others."""
    first, others = [request.inputs.source_sentence], request.inputs.sentences
    _refuse_long_sentences(predictor, [*first, *others], None, "shorten it")
    return predictor.similarity(first, others)[0].tolist()


FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Image formats that are decoded: none for which Pillow starts another program, as it does for PostScript."""


def image_of(request: ImageRequest, channels: int) -> np.ndarray:
    """The decoded image of a request, (height, width, channels) uint8."""
    from regard.data.images import decoded_image

    return decoded_image(request.inputs, "inputs", colour=channels == 3, formats=FORMATS)


def _image_classified(predictor: ImageClassifierPredictor, request: ImageClassRequest) -> list[dict[str, Any]]:
    """The classes of an image and their scores, five by default."""
    found = predictor.classify(image_of(request, predictor.task.size.channels))
    asked = request.parameters or ScoreParameters()
    rows = _scores(predictor, found.probabilities, found.probabilities.values(), asked)
    return rows if asked.top_k else rows[:5]


def _captioned(predictor: Captioner, request: CaptionRequest) -> list[dict[str, Any]]:
    asked, where = request.parameters or CaptionParameters(), "parameters.generation_parameters"
    how = asked.generation_parameters or GenerateParameters()
    if asked.max_new_tokens is not None:
        if how.max_new_tokens is not None or how.max_length is not None:
            raise InputError("parameters.max_new_tokens: is given twice; give it once")
        how = msgspec.structs.replace(how, max_new_tokens=asked.max_new_tokens)
    settings = settings_of(predictor.task.generation, how, where)
    return [{"generated_text": predictor.caption(image_of(request, predictor.task.size.channels), settings).text}]


# --- routes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskRoute:
    """One task of the inference API.

    Arguments:
        name: Hugging Face's name, such as `text-classification`.
        request: the class that `decode` returns.
        shape: of the answer.
        answer: from a loaded predictor and a request, neither of which it changes, to lists, mappings, strings and numbers.
        event: the shape of an event, where the answer may be streamed.
    """

    name: str
    request: type[TaskRequest]
    shape: Any
    answer: Callable[[Any, Any], Any]
    event: Any = None


ROUTES: Mapping[str, TaskRoute] = {
    route.name: route
    for route in (
        TaskRoute("text-classification", ClassificationRequest, Scores, _classified),
        TaskRoute("zero-shot-classification", ZeroShotRequest, Ranked, zero_shot),
        TaskRoute("token-classification", TagRequest, Tags, _tagged),
        TaskRoute("question-answering", AnswerRequest, Passages, _answered),
        TaskRoute("fill-mask", FillRequest, Candidates, _filled),
        TaskRoute("translation", TranslationRequest, Translations, translated),
        TaskRoute("summarization", WriteRequest, Summaries, summarized),
        TaskRoute("text2text-generation", WriteRequest, Writings, generated),
        TaskRoute("text-generation", TextGenerationRequest, Continuations, continued, event=ContinuationPiece),
        TaskRoute("feature-extraction", VectorRequest, Vectors, _vectors),
        TaskRoute("sentence-similarity", SimilarityRequest, Similarities, _similarities),
        TaskRoute("image-classification", ImageClassRequest, Ranked, _image_classified),
        TaskRoute("image-to-text", CaptionRequest, Writings, _captioned),
    )
}
"""The routes by name."""

OF_TASK: Mapping[str, tuple[str, ...]] = {
    "classification": ("text-classification", "zero-shot-classification"),
    "multi_label_classification": ("text-classification",),
    "regression": ("text-classification",),
    "multi_output_regression": ("text-classification",),
    "tagging": ("token-classification",),
    "question_answering": ("question-answering",),
    "masked_language_modelling": ("fill-mask",),
    "translation": ("translation", "summarization"),
    "text_to_text": ("text2text-generation", "text-generation"),
    "span_corruption": ("text2text-generation",),
    "denoising": ("text2text-generation",),
    "copying": ("text2text-generation",),
    "sentence_embedding": ("feature-extraction", "sentence-similarity"),
    "image_classification": ("image-classification",),
    "captioning": ("image-to-text",),
    "language_modelling": ("text-generation", "zero-shot-classification"),
}
"""The routes of each of the package's tasks; the first is a model's default."""


def decode(route: TaskRoute, body: bytes, content_type: str) -> Any:
    """Decode the request in a body, as `read_request`; no model is needed, so another process may do it.

    Raises:
        InputError: for a body that is no request of this route; the sentence names the field.
    """
    return read_request(route.request, body, content_type)


def routes_of(predictor: Predictor[Any]) -> tuple[TaskRoute, ...]:
    """All routes that a loaded predictor is served at, its default first.

    Raises:
        InputError: for a task without a route in the inference API.
    """
    task = predictor.task
    if task.name not in OF_TASK:
        raise InputError(f"a model for the task {task.name} cannot be served; choose one for {', '.join(OF_TASK)}")
    names = OF_TASK[task.name]
    if task.name == "translation" and task.languages:
        names = names[:1]
    if task.name == "classification" and (task.pairs is False or entailment_of(task.classes) is None):
        names = names[:1]
    if task.name == "text_to_text" and (part := summary_part(task.prefixes)) is not None:
        names = ("summarization", *names) if not part else (*names, "summarization")
    return tuple(ROUTES[name] for name in names)


def chosen(names: Sequence[str], body: bytes) -> TaskRoute:
    """The route that a body is for: the first that has all fields of the body; else the model's first, which then refuses it.

    Arguments:
        names: of the model's routes.
        body: as for `decode`.
    """
    first = ROUTES[names[0]]
    if len(names) == 1:
        return first
    try:
        value = as_object(parse_json(body, "the body", ""), "the body", "")
    except InputError:
        return first
    return next((ROUTES[name] for name in names if has_fields(ROUTES[name].request, value)), first)
