"""Classification by labels that a model was not trained on: `zero-shot-classification` of Hugging Face's inference API.

A classifier for natural language inference (NLI) reads the text with a hypothesis for each label, such as "This example is ..."
(Yin, Hay and Roth 2019), and predicts whether the text entails it. For a language model, the score of a label is the likelihood
of the hypothesis' part from the label on, after the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.serving.task_requests import ZeroShotRequest

# What needs torch is imported where it is used: reading requests does not.
if TYPE_CHECKING:
    from regard.tasks.classification import Classifier
    from regard.tasks.language_modelling import LanguageModel

HYPOTHESIS = "This example is {}."
TOGETHER = 16
"""Labels that a language model scores in one batch."""


def entailment_of(classes: Sequence[str]) -> tuple[int, int] | None:
    """The indices of the classes for entailment and for its opposite; None where there are none.

    They are recognized by name: `entailment`, and `contradiction` or, of two classes, the other one.

    >>> entailment_of(("CONTRADICTION", "NEUTRAL", "ENTAILMENT")), entailment_of(("entailment", "not_entailment"))
    ((2, 0), (0, 1))
    >>> entailment_of(("good", "bad"))
    """
    names = [name.lower() for name in classes]
    follows = [place for place, name in enumerate(names) if name.startswith("entail")]
    against = [place for place, name in enumerate(names) if name.startswith("contradict")]
    if len(follows) == 1 and not against and len(names) == 2:
        against = [1 - follows[0]]
    return (follows[0], against[0]) if len(follows) == len(against) == 1 else None


def zero_shot(predictor: Classifier | LanguageModel, request: ZeroShotRequest) -> list[dict[str, Any]]:
    """Labels and their scores, highest first.

    Raises:
        InputError: for a template without `{}`, a label given twice, and a text that is too long.
    """
    asked = request.parameters
    template, labels = (
        HYPOTHESIS if asked.hypothesis_template is None else asked.hypothesis_template,
        asked.candidate_labels,
    )
    if template.count("{}") != 1 or template.count("{") + template.count("}") != 2:
        raise InputError(
            f"parameters.hypothesis_template: is {template!r:.80}; write {{}} once, in the place of the label"
        )
    twice = next((label for place, label in enumerate(labels) if label in labels[:place]), None)
    if twice is not None:
        raise InputError(f"parameters.candidate_labels: {twice!r:.60} is given twice; give it once")
    if predictor.task.name == "language_modelling":
        scores = _by_likelihood(predictor, request, template)  # type: ignore[arg-type]
    else:
        scores = _by_entailment(predictor, request, template)  # type: ignore[arg-type]
    rows = [{"label": label, "score": score} for label, score in zip(labels, scores, strict=True)]
    return sorted(rows, key=lambda row: -row["score"])


def _by_entailment(predictor: Classifier, request: ZeroShotRequest, template: str) -> list[float]:
    """The score of each label, from the logits of entailment of its hypothesis.

    As in `transformers`: the softmax over labels of the logits for entailment; with `multi_label`, or for a single label, for
    each label the softmax over contradiction and entailment.
    """
    import torch

    from regard.tasks.labelled import joined

    found, labels = entailment_of(predictor.task.classes), request.parameters.candidate_labels
    if found is None:
        raise InputError("the model has no class called entailment; choose one trained on natural language inference")
    follows, against = found
    pairs = [(request.inputs, template.replace("{}", label)) for label in labels]
    inputs = joined(predictor.task, pairs, pairs=True, maximum=1 << 40)
    longest = max(range(len(inputs)), key=lambda place: len(inputs[place].ids))
    _refuse_long(len(inputs[longest].ids), predictor.maximum_length, labels[longest])
    logits = torch.zeros(len(inputs), predictor.task.outputs)
    for rows, _, encoded in predictor.encoded(inputs):
        if encoded.logits is not None:
            logits[rows] = encoded.logits.float().cpu()
    if request.parameters.multi_label or len(labels) == 1:
        return logits[:, [against, follows]].softmax(dim=-1)[:, 1].tolist()
    return logits[:, follows].softmax(dim=0).tolist()


def _by_likelihood(predictor: LanguageModel, request: ZeroShotRequest, template: str) -> list[float]:
    """The score of each label: the likelihood of the label and the rest of the hypothesis, on a new line after the text.

    It is the softmax over labels of log p(label, rest | text, beginning of the hypothesis): the score `sum` of
    `regard.prompting`.
    """
    from regard.prompting.evaluation import token_log_likelihoods
    from regard.prompting.template import continued

    for name in ("attention", "interventions"):
        if getattr(request, name):
            raise InputError(f"{name}: is not available with labels; use /v1/completions")
    if request.parameters.multi_label:
        raise InputError(
            "parameters.multi_label: is true, and a language model compares the labels with each other; leave it out"
        )
    before, _, after = template.partition("{}")
    begun = f"{request.inputs}\n{before}"
    kept = begun.rstrip(" ")
    labels = request.parameters.candidate_labels
    texts = continued(predictor, kept, [begun[len(kept) :] + label + after for label in labels])
    longest = max(range(len(texts)), key=lambda place: len(texts[place].ids))
    if (positions := predictor.model.maximum_length) is not None:
        _refuse_long(len(texts[longest].ids) - 1, positions, labels[longest])
    groups = [texts[first : first + TOGETHER] for first in range(0, len(texts), TOGETHER)]
    scored = [each for group in token_log_likelihoods(predictor, groups) for each in group]
    totals = [math.fsum(each.log_probabilities) for each in scored]
    shares = [math.exp(total - max(totals)) for total in totals]
    return [share / math.fsum(shares) for share in shares]


def _refuse_long(length: int, most: int, label: str) -> None:
    if length > most:
        raise InputError(
            f"inputs: with the hypothesis for {label!r:.60} it has {length:,} tokens and the model reads {most:,}; shorten it"
        )
