"""Evaluation of a language model on prompts: likelihoods of continuations, choices by likelihood, and generated answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch

from regard.errors import InputError, nearest
from regard.generation import GenerationSettings
from regard.layers import Tokens
from regard.layers.embeddings import check_finite
from regard.metrics.answers import exact_match, token_f1
from regard.prompting.examples import Example, Shots
from regard.prompting.template import (
    BuiltPrompt,
    Continued,
    Template,
    build_prompt,
    common,
    continued,
    prompt_of,
    prompts_of,
)
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.pairs import compared

LOGITS = 1 << 24
"""The most logits that are computed at once while a text is read only for its state."""


@dataclass(frozen=True, slots=True)
class TokenLogLikelihoods:
    """A model's predictions for the tokens of a continuation.

    Arguments:
        log_probabilities: of each token given all tokens before it, natural log.
        right: whether each token was the most probable one.
    """

    log_probabilities: tuple[float, ...]
    right: tuple[bool, ...]


@torch.no_grad()
def token_log_likelihoods(
    model: LanguageModel, groups: Sequence[Sequence[Continued]], *, batch_size: int = 16
) -> list[list[TokenLogLikelihoods]]:
    """The log-likelihoods of continuations, token by token.

    The prefix that all texts share is read once, and the prefix that a group shares is read once per group; the state after it is
    copied for each continuation. This changes results by rounding only.

    Arguments:
        model: the language model.
        groups: continuations of one text each, which all start at the same position in it.
        batch_size: the approximate number of texts read together.

    Returns:
        For each group, one entry per continuation.
    """
    if not groups:
        return []
    module: Any = model.model
    shared = _shared(groups)
    state = _after(module, module.start(1), [groups[0][0].ids[:shared]], model)
    order = sorted(range(len(groups)), key=lambda i: groups[i][0].start)
    found: dict[int, list[TokenLogLikelihoods]] = {}
    for rows in _batches(order, groups, batch_size):
        chosen = [groups[i] for i in rows]
        begun = state.select(torch.zeros(len(rows), dtype=torch.long, device=model.device))
        begun = _after(module, begun, [group[0].ids[shared : group[0].start - 1] for group in chosen], model)
        sizes = torch.tensor([len(group) for group in chosen], device=model.device)
        begun = begun.select(torch.arange(len(chosen), device=model.device).repeat_interleave(sizes))
        answers = iter(_log_likelihoods(model, begun, [each for group in chosen for each in group]))
        found |= {i: [next(answers) for _ in groups[i]] for i in rows}
    return [found[i] for i in range(len(groups))]


def _shared(groups: Sequence[Sequence[Continued]]) -> int:
    """The length of the prefix that all texts share, without the token that predicts the first continuation's first token."""
    first = groups[0][0]
    shared = first.start - 1
    for group in groups:
        shared = min(shared, group[0].start - 1)
        shared = min(shared, common(first.ids[:shared], group[0].ids[:shared]))
    return shared


def _batches(order: Sequence[int], groups: Sequence[Sequence[Continued]], batch_size: int) -> Iterator[list[int]]:
    """Groups collected into batches of about `batch_size` texts."""
    batch: list[int] = []
    texts = 0
    for i in order:
        if batch and texts + len(groups[i]) > batch_size:
            yield batch
            batch, texts = [], 0
        batch.append(i)
        texts += len(groups[i])
    yield batch


def _after(module: Any, state: Any, texts: Sequence[Sequence[int]], model: LanguageModel) -> Any:
    """The state after reading further tokens, padded on the left so that all rows end together."""
    tokenizer = model.task.tokenizer
    read = Tokens.pad(texts, padding_id=tokenizer.padding_id, side="left", device=model.device)
    stretch = max(1, LOGITS // (len(texts) * tokenizer.size))
    for start in range(0, read.ids.shape[1], stretch):
        part = slice(start, start + stretch)
        _, state = module.read(Tokens(read.ids[:, part], read.valid[:, part], read.padding_side), state)
    return state


def _log_likelihoods(model: LanguageModel, state: Any, texts: Sequence[Continued]) -> list[TokenLogLikelihoods]:
    """Read, for each row, the last token before its continuation and the continuation without its last token."""
    padding = model.task.tokenizer.padding_id
    read = Tokens.pad([text.ids[text.start - 1 : -1] for text in texts], padding_id=padding, device=model.device)
    labels = Tokens.pad([text.ids[text.start :] for text in texts], padding_id=padding, device=model.device).ids
    logits, _ = model.model.read(read, state)
    check_finite(logits, "these texts", where=read.valid)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = wide.gather(-1, labels.unsqueeze(-1))
    logs = (chosen - wide.logsumexp(dim=-1, keepdim=True)).squeeze(-1).tolist()
    right = (chosen >= wide.amax(dim=-1, keepdim=True)).squeeze(-1).tolist()
    lengths = [len(text.ids) - text.start for text in texts]
    return [
        TokenLogLikelihoods(tuple(log[:length]), tuple(hit[:length]))
        for log, hit, length in zip(logs, right, lengths, strict=True)
    ]


Score = Literal["sum", "token", "character", "byte", "unconditional"]
SCORES: tuple[Score, ...] = get_args(Score)


def score_of(kind: Score, text: str, found: TokenLogLikelihoods, alone: TokenLogLikelihoods | None = None) -> float:
    """The score of a choice y after a context x; the choice with the largest score is the answer.

        sum              log p(y | x)
        token            log p(y | x) / number of tokens
        character, byte  log p(y | x) / number of characters, or of bytes in UTF-8
        unconditional    log p(y | x) - log p(y | prefix), as in Brown et al. 2020 for ARC, OpenBookQA and RACE (section 2.4)

    A sum favours short choices; a ratio to the length favours choices whose end is easy to predict. The unconditional score
    measures how much the context raises the choice's probability.

    Arguments:
        kind: see above.
        text: y, including a space before it.
        found: log p(y | x), token by token.
        alone: log p(y | prefix), for `unconditional`.

    >>> score_of("byte", " yes", TokenLogLikelihoods((-1.0, -3.0), (True, False)))
    -1.0
    """
    total = math.fsum(found.log_probabilities)
    if kind == "token":
        return total / len(found.log_probabilities)
    if kind == "character":
        return total / len(text)
    if kind == "byte":
        return total / len(text.encode())
    if kind == "unconditional":
        if alone is None:
            raise ValueError("unconditional needs the choice's probability without the context")
        return total - math.fsum(alone.log_probabilities)
    return total


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptedAnswer:
    """A model's answer to one question.

    Arguments:
        where: the example's file and line.
        answer: the model's choice or generated text; in a cloze the right answer, since the model generates none.
        right: the right answers.
        correct: whether the choice is right; in a cloze, whether every token is the most probable one; of generated text,
            whether it equals a right answer up to case, articles and punctuation.
        scores: of each choice, in order; in a cloze one, the log-probability of the answer.
    """

    where: str
    answer: str
    right: tuple[str, ...]
    correct: bool
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompted:
    """The results of `evaluate_prompts`.

    Arguments:
        metrics: for choices `accuracy` and `chance`, the accuracy of guessing. For a cloze `accuracy` and `perplexity`, exp of
            the mean of -log p over whole answers, not over tokens. For answers `exact_match` and `f1`, both in [0, 1]. For
            translations `bleu` and the other metrics of `regard evaluate`, as far as sacreBLEU is installed.
        count: number of questions.
        shots: number of in-context examples per question.
        prompt: the first question's whole prompt.
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


def evaluate_prompts(
    model: LanguageModel,
    template: Template,
    examples: Sequence[Example],
    *,
    shots: Shots | None = None,
    score: Score = "sum",
    batch_size: int = 16,
) -> Prompted:
    """Evaluate a language model on prompts, without training: zero-shot, one-shot or few-shot (Brown et al. 2020, section 2).

    Arguments:
        model: the language model.
        template: how an example becomes a prompt, and how the answer is found.
        examples: the questions, with their right answers.
        shots: the in-context examples before each question; None for none (zero-shot).
        score: by which choices are compared, see `score_of`; only for the task `choice`.
        batch_size: texts read or generated together; it affects memory and speed only.

    Raises:
        InputError: without questions; for an example that does not fit the template, a prompt longer than the model's maximum
            (the message has the number of shots that fits), or a score with another task than `choice`.
    """
    if not examples:
        raise InputError("there are no examples; give at least one")
    if score not in SCORES:
        raise InputError(f"there is no score {score!r}; {nearest(score, SCORES)}")
    if score != "sum" and template.task != "choice":
        raise InputError(f"score is {score}, which compares choices, and the task is {template.task}; leave it out")
    questions = [build_prompt(template, example) for example in examples]
    shown = prompts_of(model, template, examples, questions, shots)
    if template.writes:
        found, metrics, note, signatures = _written(model, template, questions, shown, batch_size)
    else:
        note, signatures = "", {}
        groups = [
            continued(model, prompt, question.continuations) for prompt, question in zip(shown, questions, strict=True)
        ]
        likelihoods = token_log_likelihoods(model, groups, batch_size=batch_size)
        if template.task == "choice":
            found, metrics = _chosen(model, template, questions, likelihoods, score, batch_size)
        else:
            found, metrics = _filled(questions, likelihoods)
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
    questions: Sequence[BuiltPrompt],
    likelihoods: Sequence[Sequence[TokenLogLikelihoods]],
    score: Score,
    batch_size: int,
) -> tuple[list[PromptedAnswer], dict[str, float]]:
    alone: dict[str, TokenLogLikelihoods] = {}
    if score == "unconditional":
        texts = list(dict.fromkeys(text for question in questions for text in question.continuations))
        prefix = prompt_of(template, [], template.answer_prefix.rstrip(" "))
        groups = [continued(model, prefix, [text]) for text in texts]
        alone = {
            text: each[0]
            for text, each in zip(texts, token_log_likelihoods(model, groups, batch_size=batch_size), strict=True)
        }
    found = []
    for question, each in zip(questions, likelihoods, strict=True):
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
    questions: Sequence[BuiltPrompt], likelihoods: Sequence[Sequence[TokenLogLikelihoods]]
) -> tuple[list[PromptedAnswer], dict[str, float]]:
    found = [
        PromptedAnswer(
            where=question.where,
            answer=question.answers[0],
            right=question.answers,
            correct=all(one.right),
            scores=(math.fsum(one.log_probabilities),),
        )
        for question, (one,) in zip(questions, likelihoods, strict=True)
    ]
    loss = -math.fsum(each.scores[0] for each in found) / len(found)
    return found, {"accuracy": _share(found), "perplexity": math.exp(min(700.0, loss))}


def _written(
    model: LanguageModel, template: Template, questions: Sequence[BuiltPrompt], shown: Sequence[str], batch_size: int
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
