"""Template-based bias of masked language models: which words an attribute makes more probable (Kurita et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.tasks.masked_language_modelling import MaskedLanguageModel, mask_of, read_masked
from regard.word_embeddings.bias import cautions
from regard.word_embeddings.bias.lists import NamedWords

TARGET, ATTRIBUTE = "[TARGET]", "[ATTRIBUTE]"

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateBias:
    """How much more each attribute raises the probability of one set of target words than of another.

    Arguments:
        targets: the names of the two sets.
        scores: for each attribute and target word, the mean over templates of log(p / prior), with the natural logarithm.
        differences: for each attribute, the mean score of the first set minus that of the second.
        left_out: target words that are not a single token of the model.
        cautions: sentences on what this does not show.
    """

    targets: tuple[str, str]
    scores: Mapping[str, Mapping[str, float]]
    differences: Mapping[str, float]
    left_out: tuple[str, ...]
    cautions: tuple[str, ...] = (cautions.TEMPLATES, cautions.ENGLISH_AND_BINARY)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "targets": list(self.targets),
            "scores": {attribute: dict(scores) for attribute, scores in self.scores.items()},
            "differences": dict(self.differences),
            "left_out": list(self.left_out),
            "cautions": list(self.cautions),
        }


def template_bias(
    model: MaskedLanguageModel,
    templates: Sequence[str],
    targets: tuple[NamedWords, NamedWords],
    attributes: Sequence[str],
) -> TemplateBias:
    """Log-probability bias scores of target words, corrected for their prior probability (Kurita et al. 2019).

        p      = P([TARGET] is the word | template with the attribute)
        prior  = P([TARGET] is the word | template with all tokens of the attribute masked)
        score  = log(p / prior)

    Arguments:
        model: a model loaded with `regard.load(folder, task="masked_language_modelling")`.
        templates: texts with [TARGET] and [ATTRIBUTE] once each, such as "[TARGET] is a [ATTRIBUTE].".
        targets: two sets of words, such as (he, him) and (she, her); words that are not a single token are left out.
        attributes: the attributes, such as occupations.

    Raises:
        InputError: for a template that does not contain both placeholders once, or a set without a single-token word.
    """
    if not templates or not attributes:
        raise InputError(
            f"{len(templates)} templates and {len(attributes)} attributes are given; give at least one of each"
        )
    mask = mask_of(model.task.tokenizer)
    for template in templates:
        if template.count(TARGET) != 1 or template.count(ATTRIBUTE) != 1 or mask in template:
            raise InputError(
                f"the template {template!r:.80} is not valid; it needs {TARGET} and {ATTRIBUTE}, once each, and no mask token"
            )
    kept = [_one_token(model, words) for words in targets]
    ids = [index for words in kept for index in words.values()]
    asked = [_texts(model, template, attribute, mask) for template in templates for attribute in attributes]
    logs = _log_probabilities(model, [each for pair in asked for each in pair], ids)
    scores = (logs[::2] - logs[1::2]).reshape(len(templates), len(attributes), len(ids)).mean(axis=0)
    names = [word for words in kept for word in words]
    middle = len(kept[0])
    return TemplateBias(
        targets=(targets[0].name, targets[1].name),
        scores={
            word: dict(zip(names, row.tolist(), strict=True)) for word, row in zip(attributes, scores, strict=True)
        },
        differences={
            word: float(row[:middle].mean() - row[middle:].mean()) for word, row in zip(attributes, scores, strict=True)
        },
        left_out=tuple(word for words in targets for word in words.words if word not in names),
    )


def _one_token(model: MaskedLanguageModel, words: NamedWords) -> dict[str, int]:
    tokenizer = model.task.tokenizer
    encoded = tokenizer.encode_batch(list(words.words))
    found = {
        word: ids[0]
        for word, ids in zip(words.words, encoded, strict=True)
        if len(ids) == 1 and ids[0] != tokenizer.unknown_id
    }
    if not found:
        raise InputError(f"{words.name}: none of the words is a single token of the model; give other words")
    return found


def _texts(model: MaskedLanguageModel, template: str, attribute: str, mask: str) -> tuple[tuple[str, int], ...]:
    """The template with the attribute and with the attribute masked, each with the index of the target's mask among its masks."""
    (ids,) = model.task.tokenizer.encode_batch([attribute])
    hidden = " ".join([mask] * max(1, len(ids)))
    before = 0 if template.index(TARGET) < template.index(ATTRIBUTE) else max(1, len(ids))
    asked = template.replace(TARGET, mask)
    return (asked.replace(ATTRIBUTE, attribute), 0), (asked.replace(ATTRIBUTE, hidden), before)


def _log_probabilities(model: MaskedLanguageModel, asked: Sequence[tuple[str, int]], ids: Sequence[int]) -> Numbers:
    """For each text the natural log-probabilities of the tokens `ids` at one of its masks, (texts, tokens)."""
    tokenizer = model.task.tokenizer
    inputs = read_masked(tokenizer, [text for text, _ in asked], maximum=model.maximum_length)
    found = np.empty((len(asked), len(ids)))

    def masks(tokens: Any) -> Any:
        return (tokens.ids == tokenizer.mask_id).flatten().nonzero().squeeze(1)

    for rows, tokens, encoded in model.encoded(inputs, at=masks):
        if encoded.logits is None:
            raise RuntimeError("the model has no head over the vocabulary")
        logs = encoded.logits.double().log_softmax(dim=-1)[:, list(ids)].cpu().numpy()
        counts = (tokens.ids == tokenizer.mask_id).sum(dim=1).tolist()
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int)
        for row, start in zip(rows, starts.tolist(), strict=True):
            found[row] = logs[start + asked[row][1]]
    return found
