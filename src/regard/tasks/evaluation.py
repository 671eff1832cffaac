"""`regard.evaluate`: how good a model is on examples it has not seen, whatever its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from regard.tasks.captioning.captioner import Captioner
from regard.tasks.captioning.evaluation import CaptionEvaluation
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.evaluation import ClassificationEvaluation, RegressionEvaluation
from regard.tasks.classification.rater import Rater
from regard.tasks.copying.copier import Copier
from regard.tasks.copying.evaluation import CopyEvaluation
from regard.tasks.few_shot.evaluation import EpisodeEvaluation, Question
from regard.tasks.few_shot.few_shot_classifier import FewShotClassifier
from regard.tasks.kinds import kind_of
from regard.tasks.language_modelling.evaluation import TextEvaluation
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.masked_language_modelling.evaluation import MaskedEvaluation
from regard.tasks.masked_language_modelling.masked_language_model import MaskedLanguageModel
from regard.tasks.picture_classification.classifier import PictureClassifierPredictor
from regard.tasks.picture_classification.evaluation import PictureEvaluation
from regard.tasks.span_corruption.evaluation import SpanEvaluation
from regard.tasks.span_corruption.span_filler import SpanFiller
from regard.tasks.text_to_text.evaluation import TextToTextEvaluation
from regard.tasks.text_to_text.text_to_text import TextToText
from regard.tasks.translation.evaluation import Evaluation
from regard.tasks.translation.translator import Translator


@overload
def evaluate(model: Translator, data: Sequence[tuple[str, str]], /, *arguments: Any, **settings: Any) -> Evaluation: ...


@overload
def evaluate(model: LanguageModel, data: Sequence[str], /, *arguments: Any, **settings: Any) -> TextEvaluation: ...


@overload
def evaluate(
    model: MaskedLanguageModel, data: Sequence[str] | Sequence[Sequence[str]], /, *arguments: Any, **settings: Any
) -> MaskedEvaluation: ...


@overload
def evaluate(model: TextToText, data: Sequence[Any], /, *arguments: Any, **settings: Any) -> TextToTextEvaluation: ...


@overload
def evaluate(
    model: SpanFiller, data: Sequence[str] | Sequence[Sequence[str]], /, *arguments: Any, **settings: Any
) -> SpanEvaluation: ...


@overload
def evaluate(model: Captioner, data: Sequence[Any], /, *arguments: Any, **settings: Any) -> CaptionEvaluation: ...


@overload
def evaluate(model: Copier, data: Sequence[Sequence[int]], /) -> CopyEvaluation: ...


@overload
def evaluate(model: FewShotClassifier, data: Sequence[Question], /) -> EpisodeEvaluation: ...


@overload
def evaluate(model: PictureClassifierPredictor, data: Sequence[Any], /) -> PictureEvaluation: ...


@overload
def evaluate(model: Classifier, data: Sequence[Any], /) -> ClassificationEvaluation: ...


@overload
def evaluate(model: Rater, data: Sequence[Any], /) -> RegressionEvaluation: ...


@overload
def evaluate(model: Any, data: Any, /, *arguments: Any, **settings: Any) -> Any: ...


def evaluate(model: Any, data: Any, /, *arguments: Any, **settings: Any) -> Any:
    """Measure a model on examples it has not seen.

    For a `Translator` this is `regard.tasks.translation.evaluation.evaluate`, on pairs; for a `LanguageModel`
    `regard.tasks.language_modelling.evaluation.evaluate`, on texts; and so on, as `regard.tasks.kinds` names them. Further
    arguments are theirs.

    Raises:
        InputError: as they do.
    """
    return kind_of(model.task.name).evaluate(model, data, *arguments, **settings)
