"""`regard.evaluate`: evaluation of a model on test examples, for any task."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, overload

from regard.errors import InputError, nearest
from regard.generation import GenerationSettings
from regard.tasks.predictor import Evaluation, Predictor
from regard.tasks.spec import spec_of

if TYPE_CHECKING:
    from regard.tasks.captioning import Captioner, CaptionEvaluation
    from regard.tasks.classification import ClassificationEvaluation, Classifier
    from regard.tasks.copying import Copier
    from regard.tasks.denoising import Denoiser
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.image_classification import ImageClassifierPredictor, ImageEvaluation
    from regard.tasks.language_modelling import LanguageModel, TextEvaluation
    from regard.tasks.masked_language_modelling import MaskedEvaluation, MaskedLanguageModel
    from regard.tasks.multi_label import MultiLabelClassifier, MultiLabelEvaluation
    from regard.tasks.regression import MultiOutputEvaluation, MultiOutputRegressor, RegressionEvaluation, Regressor
    from regard.tasks.span_corruption import SpanFiller
    from regard.tasks.stretches import StretchEvaluation
    from regard.tasks.tagging_data import Decoding
    from regard.tasks.text_to_text import TextToText, TextToTextEvaluation
    from regard.tasks.translation import Translator
    from regard.tasks.translation_evaluation import TranslationEvaluation


@overload
def evaluate(
    model: Translator,
    data: Sequence[tuple[str, str]],
    /,
    settings: GenerationSettings | None = None,
    *,
    to: str | None = None,
    bins: Sequence[int] | None = None,
    batch_size: int | None = None,
) -> TranslationEvaluation: ...


@overload
def evaluate(
    model: LanguageModel, data: Sequence[str], /, *, batch_size: int | None = None, stride: int | None = None
) -> TextEvaluation: ...


@overload
def evaluate(
    model: MaskedLanguageModel,
    data: Sequence[str] | Sequence[Sequence[str]],
    /,
    *,
    seed: int | None = None,
    batch_tokens: int | None = None,
) -> MaskedEvaluation: ...


@overload
def evaluate(
    model: TextToText,
    data: Sequence[Any],
    /,
    settings: GenerationSettings | None = None,
    *,
    part: str | None = None,
    batch_size: int | None = None,
) -> TextToTextEvaluation: ...


@overload
def evaluate(
    model: SpanFiller | Denoiser,
    data: Sequence[str] | Sequence[Sequence[str]],
    /,
    *,
    length: int | None = None,
    batch_tokens: int | None = None,
) -> StretchEvaluation: ...


@overload
def evaluate(
    model: Captioner,
    data: Sequence[Any],
    /,
    settings: GenerationSettings | None = None,
    *,
    batch_size: int | None = None,
) -> CaptionEvaluation: ...


@overload
def evaluate(model: Copier, data: Any, /) -> Evaluation: ...


@overload
def evaluate(model: FewShotClassifier, data: Any, /) -> Evaluation: ...


@overload
def evaluate(model: ImageClassifierPredictor, data: Sequence[Any], /) -> ImageEvaluation: ...


@overload
def evaluate(
    model: Classifier, data: Sequence[Any], /, *, positive: str | None = None, threshold: float | None = None
) -> ClassificationEvaluation: ...


@overload
def evaluate(
    model: MultiLabelClassifier, data: Sequence[Any], /, *, threshold: float | None = None
) -> MultiLabelEvaluation: ...


@overload
def evaluate(model: MultiOutputRegressor, data: Sequence[Any], /) -> MultiOutputEvaluation: ...


@overload
def evaluate(model: Regressor, data: Sequence[Any], /) -> RegressionEvaluation: ...


@overload
def evaluate(
    model: Any,
    data: Any,
    /,
    settings: GenerationSettings | None = None,
    *,
    to: str | None = None,
    bins: Sequence[int] | None = None,
    batch_size: int | None = None,
    stride: int | None = None,
    seed: int | None = None,
    part: str | None = None,
    length: int | None = None,
    positive: str | None = None,
    threshold: float | None = None,
    n_best: int | None = None,
    precision: str | None = None,
    decoding: Decoding | None = None,
    batch_tokens: int | None = None,
    batch_words: int | None = None,
) -> Any: ...


def evaluate(
    model: Any,
    data: Any,
    /,
    settings: GenerationSettings | None = None,
    *,
    to: str | None = None,
    bins: Sequence[int] | None = None,
    batch_size: int | None = None,
    stride: int | None = None,
    seed: int | None = None,
    part: str | None = None,
    length: int | None = None,
    positive: str | None = None,
    threshold: float | None = None,
    n_best: int | None = None,
    precision: str | None = None,
    decoding: Decoding | None = None,
    batch_tokens: int | None = None,
    batch_words: int | None = None,
) -> Any:
    """Evaluate a model on test examples.

    For a `Translator` this is `regard.tasks.translation.evaluate`, on pairs; for a `LanguageModel`
    `regard.tasks.language_modelling.evaluate`, on texts; and so on for each task in `regard.tasks.spec`.

    Arguments:
        model: a predictor, such as from `regard.load`.
        data: examples of the task.
        settings: how to decode, for models that generate.
        to, bins: the language of the references, and bounds of length bins, for translation.
        batch_size: texts per batch, for translation, text to text, captioning and language modelling.
        stride: of the windows over long texts, for language modelling.
        seed: of the masked tokens, for masked language modelling.
        part: one of its tasks, for text to text.
        length: tokens of an input, for span corruption and denoising.
        positive: the positive class of F1 and of the threshold, for classification.
        threshold: for question answering, how far "no answer" must score above the best answer; for classification, the minimum
            probability for predicting the positive class, or a label.
        n_best: the number of answers kept, for question answering.
        precision: of the computation, for sentence embedding.
        decoding: how tags are decoded, for tagging.
        batch_tokens, batch_words: tokens or words per batch, for pre-training tasks.

    Raises:
        InputError: for an argument that the model's task does not have, and as the function of the task.
    """
    _check_order(model, data)
    spec = spec_of(model.task.name)
    given = {
        "settings": settings,
        "to": to,
        "bins": bins,
        "batch_size": batch_size,
        "stride": stride,
        "seed": seed,
        "part": part,
        "length": length,
        "positive": positive,
        "threshold": threshold,
        "n_best": n_best,
        "precision": precision,
        "decoding": decoding,
        "batch_tokens": batch_tokens,
        "batch_words": batch_words,
    }
    given = {name: value for name, value in given.items() if value is not None}
    known = list(signature(spec.evaluate).parameters)[2:]
    for name in given:
        if name not in known:
            raise InputError(
                f"{name} is not for task {model.task.name}; " + (nearest(name, known) if known else "leave it out")
            )
    return spec.evaluate(model, data, **given)


def _check_order(model: Any, data: Any) -> None:
    """Refuse a path instead of a model or examples, and a model and examples in the wrong order.

    Raises:
        InputError: with the arguments to give instead.
    """
    if isinstance(data, Predictor) and not isinstance(model, Predictor):
        raise InputError(
            "the model was given as the second argument; give it first, then the examples: regard.evaluate(model, examples)"
        )
    if isinstance(model, str | os.PathLike):
        raise InputError(
            f"the model is given as {str(model)!r:.80}; load it first: regard.evaluate(regard.load({str(model)!r:.80}), examples)"
        )
    if not isinstance(model, Predictor):
        raise InputError(
            f"the model is a {type(model).__name__}; give what regard.load returns: regard.evaluate(model, examples)"
        )
    if isinstance(data, str | os.PathLike):
        raise InputError(
            f"the examples are given as {str(data)!r:.80}, and files are read by the command `regard evaluate MODEL FILE`; "
            "in Python give a list of examples, such as the rows of the file"
        )
    if data is None or isinstance(data, Predictor):
        raise InputError("the examples are missing; give a list of them: regard.evaluate(model, examples)")
