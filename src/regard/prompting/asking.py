"""Questions put to a language model as text, and how good its answers are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regard.errors import InputError, nearest
from regard.generation import GenerationSettings
from regard.metrics.answers import exact_match, token_f1
from regard.prompting.examples import Example, Shots
from regard.prompting.likelihood import SCORES, Score, Told, continued, score_of, told
from regard.prompting.prompts import Posed, posed, prompt_of, prompts_of
from regard.prompting.template import Template
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.translation import compared


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptedAnswer:
    """A model's answer to one question.

    Arguments:
        where: the example's file and line.
        answer: what the model chose or wrote; in a cloze what is right, as the model is not asked for another.
        right: the right answer, or several.
        correct: whether it is right: chosen, most probable token by token, or written so, up to case, articles and punctuation.
        scores: of each choice, in their order; of a cloze one, its log-probability.
    """

    where: str
    answer: str
    right: tuple[str, ...]
    correct: bool
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompted:
    """What asking found.

    Arguments:
        metrics: of choices `accuracy` and `chance`, what guessing gives. Of a cloze `accuracy` and `perplexity`, exp of the mean
            of -log p of whole answers, not of their tokens. Of answers `exact_match` and `f1`, both in [0, 1]. Of translations
            `bleu` and what else `regard evaluate` tells of a translator, as far as sacreBLEU is there.
        count: questions.
        shots: examples shown before each.
        prompt: the first question as the model read it.
        answers: one for each question.
        note: what could not be computed, and why.
        signatures: sacreBLEU's, by metric.
    """

    metrics: dict[str, float]
    count: int
    shots: int
    prompt: str
    answers: tuple[PromptedAnswer, ...] = field(repr=False)
    note: str = ""
    signatures: Mapping[str, str] = field(default_factory=dict)


def ask(
    model: LanguageModel,
    template: Template,
    examples: Sequence[Example],
    *,
    shots: Shots | None = None,
    score: Score = "sum",
    batch_size: int = 16,
) -> Prompted:
    """Put questions to a language model, and judge its answers. Nothing is trained.

    Arguments:
        template: how an example becomes text, and what is done with it.
        examples: the questions, with their right answers.
        shots: the examples shown before each; none where None, which is called zero-shot.
        score: by what choices are compared, see `score_of`; of the task `choice` alone.
        batch_size: texts read or written together. It changes no answer, only memory and speed.

    Raises:
        InputError: for no question, an example that does not fit the template, a prompt longer than the model has positions for
            (with the number of shots that fit), or a score where nothing is chosen.
    """
    if not examples:
        raise InputError("there is nothing to ask; give one example at least")
    if score not in SCORES:
        raise InputError(f"there is no score {score!r}; {nearest(score, SCORES)}")
    if score != "sum" and template.task != "choice":
        raise InputError(f"score is {score}, which compares choices, and the task is {template.task}; leave it out")
    questions = [posed(template, example) for example in examples]
    shown = prompts_of(model, template, examples, questions, shots)
    if template.writes:
        found, metrics, note, signatures = _written(model, template, questions, shown, batch_size)
    else:
        note, signatures = "", {}
        groups = [
            continued(model, prompt, question.continuations) for prompt, question in zip(shown, questions, strict=True)
        ]
        said = told(model, groups, batch_size=batch_size)
        if template.task == "choice":
            found, metrics = _chosen(model, template, questions, said, score, batch_size)
        else:
            found, metrics = _filled(questions, said)
    return Prompted(
        metrics=metrics,
        count=len(examples),
        shots=0 if shots is None else shots.count,
        prompt=shown[0],
        answers=tuple(found),
        note=note,
        signatures=signatures,
    )


def _chosen(
    model: LanguageModel,
    template: Template,
    questions: Sequence[Posed],
    said: Sequence[Sequence[Told]],
    score: Score,
    batch_size: int,
) -> tuple[list[PromptedAnswer], dict[str, float]]:
    alone: dict[str, Told] = {}
    if score == "unconditional":
        texts = list(dict.fromkeys(text for question in questions for text in question.continuations))
        prefix = prompt_of(template, [], template.answer_prefix.rstrip(" "))
        groups = [continued(model, prefix, [text]) for text in texts]
        alone = {text: each[0] for text, each in zip(texts, told(model, groups, batch_size=batch_size), strict=True)}
    found = []
    for question, each in zip(questions, said, strict=True):
        scores = tuple(
            score_of(score, text, one, alone.get(text)) for text, one in zip(question.continuations, each, strict=True)
        )
        best = scores.index(max(scores))
        found.append(
            PromptedAnswer(
                where=question.where,
                answer=question.answers[best],
                right=(question.answers[question.right],),
                correct=best == question.right,
                scores=scores,
            )
        )
    chance = math.fsum(1 / len(question.answers) for question in questions) / len(questions)
    return found, {"accuracy": _share(found), "chance": chance}


def _filled(
    questions: Sequence[Posed], said: Sequence[Sequence[Told]]
) -> tuple[list[PromptedAnswer], dict[str, float]]:
    found = [
        PromptedAnswer(
            where=question.where,
            answer=question.answers[0],
            right=question.answers,
            correct=all(one.right),
            scores=(math.fsum(one.log_probabilities),),
        )
        for question, (one,) in zip(questions, said, strict=True)
    ]
    loss = -math.fsum(each.scores[0] for each in found) / len(found)
    return found, {"accuracy": _share(found), "perplexity": math.exp(min(700.0, loss))}


def _written(
    model: LanguageModel, template: Template, questions: Sequence[Posed], shown: Sequence[str], batch_size: int
) -> tuple[list[PromptedAnswer], dict[str, float], str, Mapping[str, str]]:
    settings = GenerationSettings(maximum_length=template.maximum_length)
    written = model.generate(list(shown), settings, stop=template.stop, batch_size=batch_size)
    texts = [each.text.strip() for each in written]
    found = [
        PromptedAnswer(
            where=question.where,
            answer=text,
            right=question.answers,
            correct=bool(exact_match(question.answers, text)),
        )
        for question, text in zip(questions, texts, strict=True)
    ]
    if template.task == "translation":
        references = [question.answers[0] for question in questions]
        metrics, signatures, note = compared(texts, references, model.task.tokenizer)
        return found, metrics, note, signatures
    scores = [token_f1(each.right, each.answer) for each in found]
    return found, {"exact_match": _share(found), "f1": math.fsum(scores) / len(scores)}, "", {}


def _share(answers: Sequence[PromptedAnswer]) -> float:
    return sum(each.correct for each in answers) / len(answers)
