"""Which tokens a task's score comes from: attributions with tokens, to be printed, shown and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.errors import InputError, nearest
from regard.inspection.analysis.embedded import EmbeddedScore
from regard.inspection.analysis.gradients import IntegratedGradients, Method
from regard.inspection.analysis.scored import ReadTokens, Scored, TaskScore
from regard.inspection.analysis.scores import SCORES
from regard.inspection.terminal import colour_of
from regard.inspection.view import AttentionMap, AttentionView, readable
from regard.inspection.words import shown_tokens
from regard.layers import Tokens
from regard.tasks import Predictor

if TYPE_CHECKING:
    from rich.console import Group

# Sundararajan et al. 2017, section 5: take more steps where attributions miss the difference by over 5 %. Beside a difference of
# nearly nothing rounding is noticeable too.
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
        """The tokens with the largest attributions, whatever their sign: (sequence, token, attribution)."""
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
    """What the model reads as so many equal rows; remembers the tensors, by which an embedding's call is told."""

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
