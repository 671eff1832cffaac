"""`regard.evaluate`: how good a model is on examples it has not seen, whatever its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from regard.tasks.language_modelling.evaluation import TextEvaluation
from regard.tasks.language_modelling.evaluation import evaluate as evaluate_texts
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.translation.evaluation import Evaluation
from regard.tasks.translation.evaluation import evaluate as evaluate_pairs
from regard.tasks.translation.translator import Translator


@overload
def evaluate(model: Translator, data: Sequence[tuple[str, str]], /, *arguments: Any, **settings: Any) -> Evaluation: ...


@overload
def evaluate(model: LanguageModel, data: Sequence[str], /, *arguments: Any, **settings: Any) -> TextEvaluation: ...


def evaluate(model: Any, data: Any, /, *arguments: Any, **settings: Any) -> Any:
    """Measure a model on examples it has not seen.

    For a `Translator` this is `regard.tasks.translation.evaluation.evaluate`, on pairs; for a `LanguageModel`
    `regard.tasks.language_modelling.evaluation.evaluate`, on texts. Further arguments are theirs.

    Raises:
        InputError: as they do.
    """
    if isinstance(model, LanguageModel):
        return evaluate_texts(model, data, *arguments, **settings)
    return evaluate_pairs(model, data, *arguments, **settings)
