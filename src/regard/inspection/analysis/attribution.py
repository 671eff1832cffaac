"""Which tokens a task's score comes from: attributions with their tokens, to be printed, shown and saved.

The scores of models that write texts are here; those of encoders in `encoder_scores`. A task joins by a class and a line in
`SCORES`; methods and images know only `Scored`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.analysis.encoder_scores import ENCODER_SCORES, ReadTokens, Scored, TaskScore, place_of
from regard.inspection.analysis.gradients import EmbeddedScore, IntegratedGradients, Method
from regard.inspection.terminal import colour_of
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.words import readable, shown_tokens
from regard.layers import Tokens
from regard.tasks import (
    DenoisingTask,
    LanguageModel,
    LanguageModellingTask,
    Predictor,
    SpanCorruptionTask,
    TextToTextTask,
    TranslationTask,
)
from regard.tasks.pairs import PairPredictor

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetProbability:
    """Of a model that writes a text for a text: log p(target | source), or log p(one token | source, the target before it).

    Logarithms are natural. The target is read by teacher forcing. Attributed to are the tokens of the source, end token included,
    and of the target as the decoder reads it: the start token first.

    Arguments:
        source: a text.
        target: a text; what the model itself writes where None.
        token: which token of the target: a number, from 0 or from -1 backwards, or the token itself where it occurs once; the
            end token is the last. The whole target where None.
        to: the language wanted, or the part, of a model of several.
    """

    source: str
    target: str | None = None
    token: int | str | None = None
    to: str | None = None

    def of(self, model: PairPredictor[Any]) -> Scored:
        """The score of this model.

        Raises:
            InputError: for an empty source, a token that is not there, and as the model's `encode_source`.
        """
        task = model.task
        if not self.source.strip():
            raise InputError("the source is empty; there is nothing to attribute to")
        reader, tokenizer = task.sides
        asked = model.encode_source(self.source, self.to)
        source = task.whole(asked)
        written = _written(model, asked) if self.target is None else task.whole(model.encode_target(self.target), 1)
        texts = tokenizer.tokens(written)
        place = None if self.token is None else place_of(self.token, texts, "target")
        # What follows the token is not looked at, so it need not be computed.
        last = len(written) if place is None else place + 1
        first = 0 if place is None else place
        labels = written[first:last]
        fed = [task.start_id, *written[: last - 1]]

        def score(read: Sequence[Tokens]) -> Tensor:
            logits = model.model(*read)
            return _log_probability(logits[:, first:], labels)

        said = texts[place] if place is not None else shorten(tokenizer.decode(written), 60, placeholder="...")
        return Scored(
            module=model.model,
            quantity="log p",
            target=said,
            read=(
                ReadTokens(name="source", ids=tuple(source), texts=tuple(reader.tokens(source))),
                ReadTokens(name="target", ids=tuple(fed), texts=tuple(tokenizer.tokens(fed))),
            ),
            score=score,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TextProbability:
    """Of a language model: log p(text), or log p(one token | those before), natural log.

    Attributed to are the tokens read: the end token that is before a text, and the text as far as it counts.

    Arguments:
        text: read as a document of its own, from its beginning.
        token: which token: a number, from 0 or from -1 backwards, or the token itself where it occurs once; the end token is
            the last. The whole text and its end where None.
    """

    text: str
    token: int | str | None = None

    def of(self, model: LanguageModel) -> Scored:
        """The score of this language model.

        Raises:
            InputError: for a token that is not there, and a text that is longer than the model has positions for.
        """
        tokenizer, limit = model.task.tokenizer, model.model.maximum_length
        written = [*tokenizer.encode(self.text), tokenizer.end_id]
        texts = tokenizer.tokens(written)
        place = None if self.token is None else place_of(self.token, texts, "text")
        last = len(written) if place is None else place + 1
        first = 0 if place is None else place
        if limit is not None and last > limit:
            raise InputError(f"{last} tokens are to be read where the model has {limit} positions; cut the text")
        labels = written[first:last]
        fed = [tokenizer.end_id, *written[: last - 1]]

        def score(read: Sequence[Tokens]) -> Tensor:
            return _log_probability(model.model(read[0])[:, first:], labels)

        said = texts[place] if place is not None else shorten(self.text, 60, placeholder="...")
        return Scored(
            module=model.model,
            quantity="log p",
            target=said,
            read=(ReadTokens(name="text", ids=tuple(fed), texts=tuple(tokenizer.tokens(fed))),),
            score=score,
        )


SCORES: Mapping[str, type[TaskScore]] = MappingProxyType(
    {
        TranslationTask.name: TargetProbability,
        TextToTextTask.name: TargetProbability,
        SpanCorruptionTask.name: TargetProbability,
        DenoisingTask.name: TargetProbability,
        LanguageModellingTask.name: TextProbability,
        **ENCODER_SCORES,
    }
)
"""By the name of a task, the score that its models are asked for. Tasks that read no tokens by a table of vectors have
none: images, bits, words by their letters."""


def _written(model: PairPredictor[Any], asked: Sequence[int]) -> list[int]:
    """The ids of what the model itself writes, its end token included where it came to one."""
    tokenizer = model.task.sides[1]
    (best,) = model.searched([asked], model.usual.with_ids(tokenizer), lambda _, found: found[0])
    return [*best.tokens, tokenizer.end_id] if best.length > len(best.tokens) else list(best.tokens)


def _log_probability(logits: Tensor, labels: Sequence[int]) -> Tensor:
    """Log-probability of the labels (L), one after the other, from logits (N, L, V): (N,)."""
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    wanted = torch.tensor(labels, device=logits.device).expand(len(logits), -1)
    return logs.gather(-1, wanted.unsqueeze(-1)).squeeze(-1).sum(dim=1)


# Sundararajan et al. 2017, section 5: take more steps where attributions miss the difference by over 5 %. In addition to a
# difference of nearly nothing rounding is noticeable too.
NOTICEABLE, ROUNDING = 0.05, 1e-3


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenAttributions:
    """What each token of one sequence contributed.

    Arguments:
        name: what the sequence is to the model, such as `source`.
        tokens: S strings.
        values: (S, D) float32, by entry of the embedding.
    """

    name: str
    tokens: tuple[str, ...]
    values: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """(S,), by token: the sum over the width."""
        return self.values.sum(axis=1, dtype=np.float64).astype(np.float32)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Attribution:
    """Where a score comes from. Positive: the token raised the score, against the baseline.

    Arguments:
        quantity: what the score is, such as `log p`.
        target: what it is of, such as a token.
        method: by which method, with its settings.
        read: the sequences attributed to.
        score: the score, in nats for a probability.
        baseline_score: the score of the baseline; None where the method has none.
        error: the sum of all attributions minus (score - baseline score), zero but for the integral's rule and rounding; None
            without a baseline.
    """

    quantity: str
    target: str
    method: str
    read: tuple[TokenAttributions, ...]
    score: float
    baseline_score: float | None = None
    error: float | None = None

    @property
    def title(self) -> str:
        """What was attributed, such as `log p(␣dog)`."""
        return f"{self.quantity}({shown_tokens([self.target])[0]})"

    def of(self, name: str) -> TokenAttributions:
        """One of the sequences.

        Raises:
            InputError: for a name that is not there.
        """
        for part in self.read:
            if part.name == name:
                return part
        raise InputError(f"nothing is attributed to {name!r}; {nearest(name, [part.name for part in self.read])}")

    def largest(self, count: int = 5) -> list[tuple[str, str, float]]:
        """The tokens with the largest attributions, for any sign: (sequence, token, attribution)."""
        found = [
            (part.name, token, float(score))
            for part in self.read
            for token, score in zip(part.tokens, part.scores, strict=True)
        ]
        return sorted(found, key=lambda each: -abs(each[2]))[:count]

    def view(self) -> AttentionView:
        """A map of one row for each sequence, its values with their signs, to be shown like weights."""
        maps = [_row_map(part.name, [self.title], part.tokens, [part.scores]) for part in self.read]
        return AttentionView(title=self.title, maps=tuple(maps), note=self.summary)

    @staticmethod
    def matrix(attributions: Sequence[Attribution], name: str) -> AttentionView:
        """Several attributions to the same sequence as one map, a row each: such as of every output token to the source.

        Raises:
            InputError: where there is none, or they are to different sequences.
        """
        if not attributions:
            raise InputError("there are no attributions to show; give at least one")
        parts = [each.of(name) for each in attributions]
        if any(part.tokens != parts[0].tokens for part in parts):
            raise InputError(f"the attributions are to different sequences called {name!r}; show them one by one")
        first = attributions[0]
        rows = [each.target for each in attributions]
        item = _row_map(name, rows, parts[0].tokens, [part.scores for part in parts])
        errors = [abs(each.error) for each in attributions if each.error is not None]
        note = f"Rows: {first.quantity}; {first.method}." + (f" Largest error {max(errors):.2g}." if errors else "")
        return AttentionView(title=f"Attribution to the {name}", maps=(item,), note=note)

    @property
    def summary(self) -> str:
        """Method, score, and how far the attributions account for it, in a sentence."""
        said = f"{self.method}; score {self.score:.4g}"
        if self.baseline_score is None or self.error is None:
            return said
        said += f", of the baseline {self.baseline_score:.4g}, error {self.error:.2g}"
        many = abs(self.error) > max(NOTICEABLE * abs(self.score - self.baseline_score), ROUNDING)
        return f"{said}: take more steps" if many else said

    def to_json(self) -> dict[str, Any]:
        """Scores by token as JSON values; `values` by dimension are left out."""
        return {
            "format_version": 1,
            "quantity": self.quantity,
            "target": self.target,
            "method": self.method,
            "score": self.score,
            "baseline_score": self.baseline_score,
            "error": self.error,
            "read": [
                {"name": part.name, "tokens": list(part.tokens), "scores": part.scores.tolist()} for part in self.read
            ],
        }

    def __rich__(self) -> Group:
        """The texts, coloured from purple (lowered the score) to orange (raised it), and the largest in numbers."""
        from rich.console import Group
        from rich.text import Text

        top = max((float(np.abs(part.scores).max(initial=0.0)) for part in self.read), default=0.0) or 1.0
        lines = [Text.assemble((readable(self.title), "bold")), Text(self.summary, style="dim")]
        for part in self.read:
            line = Text(f"{part.name}: ")
            for text, score in zip(shown_tokens(part.tokens), part.scores.tolist(), strict=True):
                line.append(text, style=_style(score / top))
                line.append(" ")
            lines.append(line)
        several = len(self.read) > 1
        texts = {part.name: dict(zip(part.tokens, shown_tokens(part.tokens), strict=True)) for part in self.read}
        said = [
            f"{texts[name][token]}{f' ({name})' if several else ''} {value:+.3g}"
            for name, token, value in self.largest()
        ]
        lines.append(Text("largest: " + ", ".join(said)))
        return Group(*lines)


def attribute(
    model: Predictor[Any],
    score: TaskScore,
    *,
    method: Method | None = None,
    inputs: Sequence[str] | None = None,
) -> Attribution:
    """Attribute a task's score to the tokens that a loaded model reads.

    Inputs are the outputs of the token tables, before any scaling and positions, which stay as they are. The model is not
    changed, and neither are its gradients.

    Arguments:
        model: what `regard.load` gives.
        score: the question to it, such as `TargetProbability` for a translator; `SCORES` has one for each task that has any.
        method: `IntegratedGradients()` from zeros where None.
        inputs: which of the sequences read, such as `source`; the others stay as they are. All where None.

    Raises:
        InputError: where the score is one for another task, or names what is not there.
    """
    wanted = SCORES.get(model.task.name)
    task = model.task.name.replace("_", " ")
    if wanted is None:
        raise InputError(
            f"a model for {task} has no score that could be attributed to tokens; look at its attention instead"
        )
    if not isinstance(score, wanted):
        raise InputError(f"a model for {task} is asked for a {wanted.__name__}, not for a {type(score).__name__}")
    return attribute_scored(score.of(model), method=method, inputs=inputs, device=model.device)


def attribute_scored(
    scored: Scored,
    *,
    method: Method | None = None,
    inputs: Sequence[str] | None = None,
    device: torch.device | str = "cpu",
) -> Attribution:
    """Attribute a score that was put together already, of any module that embeds its `Tokens` by an `nn.Embedding`.

    Raises:
        InputError: where the module embeds what it reads in another way, and for a name in `inputs` that is not there.
    """
    method = method or IntegratedGradients()
    names = [part.name for part in scored.read]
    wanted = names if inputs is None else list(inputs)
    if not wanted:
        raise InputError(f"inputs is empty; name some of {', '.join(names)}")
    for name in wanted:
        if name not in names:
            raise InputError(f"the model reads nothing called {name!r}; {nearest(name, names)}")
    rows = _Rows(scored, wanted, device)
    tables = {name: part for name, part in scored.module.named_modules() if isinstance(part, nn.Embedding)}
    found = method.attributed(EmbeddedScore(scored.module, rows.score, tables, copies=True, wanted=rows.is_one_of))
    parts = [
        TokenAttributions(name=part.name, tokens=part.texts, values=each.values[0].float().cpu().numpy())
        for part, each in zip(rows.looked_up, found.inputs, strict=True)
    ]
    baseline, error = found.baseline_score, found.error
    return Attribution(
        quantity=scored.quantity,
        target=scored.target,
        method=method.description,
        read=tuple(sorted(parts, key=lambda part: names.index(part.name))),
        score=float(found.score[0]),
        baseline_score=None if baseline is None else float(baseline[0]),
        error=None if error is None else float(error[0]),
    )


class _Rows:
    """What the model reads as so many equal rows; remembers the tensors, by which an embedding's call is recognised."""

    def __init__(self, scored: Scored, wanted: Sequence[str], device: torch.device | str) -> None:
        self.looked_up: list[ReadTokens] = []
        """What was looked up the last time, in the order of the calls."""
        self._scored = scored
        self._wanted = [part for part in scored.read if part.name in wanted]
        self._device = device
        self._ids: dict[str, torch.Tensor] = {}

    def score(self, copies: int) -> torch.Tensor:
        read = [
            Tokens(
                torch.tensor(part.ids, dtype=torch.long, device=self._device).repeat(copies, 1),
                torch.ones(copies, len(part.ids), dtype=torch.bool, device=self._device),
            )
            for part in self._scored.read
        ]
        self._ids = {part.name: tokens.ids for part, tokens in zip(self._scored.read, read, strict=True)}
        self.looked_up = []
        found = self._scored.score(read)
        for part in self._wanted:
            if (often := self.looked_up.count(part)) != 1:
                raise InputError(
                    f"the model looks up {part.name} in {often or 'no'} nn.Embedding{'s' if often else ''}, not in one; "
                    "attribute to its embedding by name instead, with the method itself"
                )
        return found

    def is_one_of(self, first: Any) -> bool:
        for part in self._wanted:
            if first is self._ids[part.name]:
                self.looked_up.append(part)
                return True
        return False


def _row_map(name: str, rows: Sequence[str], columns: Sequence[str], scores: Sequence[np.ndarray]) -> AttentionMap:
    return AttentionMap(
        address=name,
        kind="cross",
        query_tokens=tuple(rows),
        key_tokens=tuple(columns),
        weights=np.stack(list(scores))[None],
    )


def _style(share: float) -> str:
    """A background between purple and orange, with letters that can be read on it."""
    colour = colour_of(share, signed=True)
    red, green, blue = bytes.fromhex(colour[1:])
    letters = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 128 else "white"
    return f"{letters} on {colour}"
