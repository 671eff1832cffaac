"""A language model ready to use: how probable a text is, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import torch

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers import Tokens
from regard.layers.output import check_finite
from regard.prepared import PreparedDecoder, QuantisedPrecision
from regard.tasks.language_modelling.beginning import Beginning
from regard.tasks.language_modelling.stop_text import StopText
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.tasks.language_modelling.windows import Window, windows
from regard.tasks.language_modelling.writer import Writer, Written
from regard.tasks.losses import stands_out
from regard.tasks.predictor import Predictor

WRITING = GenerationSettings(maximum_length=100)
"""How a language model writes unless told otherwise: the most probable token each time, a hundred at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScore:
    """How probable a text is.

    Arguments:
        text: what was read.
        tokens: of the text, the end token included.
        log_probabilities: log p(token | those before), natural log, one for each token.
        right: whether each token was the most probable one.
    """

    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    right: tuple[bool, ...]

    @property
    def log_probability(self) -> float:
        """Of the whole text and its end."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Exp of the mean of -log p over the tokens, end token included."""
        return math.exp(min(700.0, -self.log_probability / len(self.log_probabilities)))


class LanguageModel(Predictor[LanguageModellingTask]):
    """A language model ready to use: texts in, `TextScore`s out.

    Arguments:
        model: a `Reader`.
        task: the tokenizer.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    @property
    def usual(self) -> GenerationSettings:
        """The folder's own settings, or `WRITING`."""
        return WRITING if self.task.generation is None else self.task.generation

    def score(self, text: str) -> TextScore:
        """How probable a text is, as a document of its own: read from its beginning to its end.

        One longer than the model has positions for is read in windows (`windows`).
        """
        return self.score_batch([text])[0]

    def score_batch(
        self, texts: Sequence[str], *, batch_size: int = 32, stretch: int = 512, stride: int | None = None
    ) -> list[TextScore]:
        """How probable texts are, in batches of like length; the answers come in the order of the texts.

        Arguments:
            batch_size: texts read together. It does not change the answers, only memory and speed.
            stretch: tokens read at once; the state is carried from stretch to stretch, so it does not change the answers either.
                A model of which it would, whose `reads_in_parts` is false, reads each text at once.
            stride: of the windows in which a text is read that is longer than the model has positions for, see `windows`.

        Raises:
            InputError: for a stride that is not between 1 and the model's positions.
        """
        tokenizer, limit = self.task.tokenizer, self.model.maximum_length
        encoded = [[*ids, tokenizer.end_id] for ids in tokenizer.encode_batch(list(texts))]
        parts = [(i, window) for i, ids in enumerate(encoded) for window in windows(len(ids), limit, stride)]
        order = sorted(range(len(parts)), key=lambda row: parts[row][1].stop - parts[row][1].start)
        scored: dict[int, tuple[list[float], list[bool]]] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = self._scored([(encoded[parts[row][0]], parts[row][1]) for row in rows], stretch)
            scored |= dict(zip(rows, found, strict=True))
        answers: list[tuple[list[float], list[bool]]] = [([], []) for _ in texts]
        for row, (i, _) in enumerate(parts):  # the windows of a text stand in their order
            for whole, piece in zip(answers[i], scored[row], strict=True):
                whole.extend(piece)  # type: ignore[arg-type]
        return [
            TextScore(
                text=text,
                tokens=tuple(tokenizer.tokens(ids)),
                log_probabilities=tuple(log_probabilities),
                right=tuple(right),
            )
            for text, ids, (log_probabilities, right) in zip(texts, encoded, answers, strict=True)
        ]

    def begin(self, text: str) -> Beginning:
        """Read the beginning of a text once, for any number of prompts after it (`generate(..., after=)`).

        Raises:
            InputError: for one longer than the model has positions for.
        """
        ids = self._writer(None, ()).encode(text)
        with torch.no_grad():
            state = self.model.start(1)
            if len(ids) > 1:
                state = self.model.prefill(Tokens.pad([ids[:-1]], device=self.device), state)
        return Beginning(text=text, ids=tuple(ids), state=state)

    def quantised(self, precision: QuantisedPrecision) -> LanguageModel:
        """The same with weights of 8 or 4 bits, for use on a processor: a half to an eighth of the memory, and faster by as much.

        The model itself is left as it is. What the rounding costs, `regard evaluate MODEL TEXT precision=int4` tells.

        Arguments:
            precision: `int8` or `int4`, as `regard.prepared.QuantisedWeights` says.

        Raises:
            InputError: for a model that is not of GPT's family, is on another device, or is looked at.
        """
        prepared = PreparedDecoder(self.model, precision)
        return LanguageModel(prepared, self.task, recipe=self.recipe, metrics=self.metrics)

    @overload  # a string is a sequence of strings too; the first that fits counts
    def generate(  # pyright: ignore[reportOverlappingOverload]
        self,
        prompts: str,
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        batch_size: int = 16,
        first: int = 0,
        top: int = 0,
        draft: LanguageModel | None = None,
        ahead: int = 4,
        after: Beginning | None = None,
    ) -> Written: ...

    @overload
    def generate(
        self,
        prompts: Sequence[str],
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        batch_size: int = 16,
        first: int = 0,
        top: int = 0,
        draft: LanguageModel | None = None,
        ahead: int = 4,
        after: Beginning | None = None,
    ) -> list[Written]: ...

    def generate(
        self,
        prompts: str | Sequence[str],
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        batch_size: int = 16,
        first: int = 0,
        top: int = 0,
        draft: LanguageModel | None = None,
        ahead: int = 4,
        after: Beginning | None = None,
    ) -> Written | list[Written]:
        """What the model writes after a prompt, or after each of several.

        Arguments:
            prompts: one text, or several; an empty one begins a text.
            settings: how to decode; the folder's own where None, else `WRITING`.
            stop: strings that end a text and are not part of it, wherever their borders lie among the tokens.
            batch_size: prompts written on together. It changes no answer, only memory and speed.
            first: the place of the first prompt among all that are asked, from 0. With the seed it decides what is drawn.
            top: how many of the most probable tokens to tell of each place, in `Written.top`.
            draft: a smaller model of the same vocabulary that guesses ahead, which changes the time and not the answers: greedy
                ones are the same, drawn ones other draws from the same distribution (`regard.generation.Speculation`).
            ahead: tokens it guesses at a time.
            after: what stands before every prompt and was read by `begin`; what is written is the same as after both together,
                where the border between the two is one between tokens.

        Returns:
            A `Written`, or a list of them.

        Raises:
            InputError: for a prompt longer than the model has positions for, for stops in beam search, and for a draft with
                another vocabulary or beside a beam.
        """
        if isinstance(prompts, str):
            asked = [prompts]
            more: dict[str, Any] = {"first": first, "top": top, "draft": draft, "ahead": ahead, "after": after}
            return self.generate(asked, settings, stop=stop, **more)[0]
        writer = replace(self._writer(settings, stop, top), after=after)
        if draft is not None:
            self._check_draft(draft)
            writer = replace(writer, draft=draft.model, ahead=ahead)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        answers: dict[int, Written] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            made = writer.write([prompts[i] for i in rows], [first + i for i in rows])
            for watcher in self._watchers():
                # Of one text; the rows of several move as they end.
                watcher.read(writer.tokens_read(made[0]) if len(rows) == 1 else None)
                watcher.predicted(made, [])
            answers.update(zip(rows, made, strict=True))
        return [answers[i] for i in range(len(prompts))]

    def stream(
        self, prompt: str, settings: GenerationSettings | None = None, *, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """What the model writes after a prompt, piece by piece; together the pieces are the text of `generate`.

        Raises:
            InputError: as `generate`, and for a beam or several answers.
        """
        return self._writer(settings, stop).stream(prompt)

    def _check_draft(self, draft: LanguageModel) -> None:
        ours, theirs = self.task.tokenizer, draft.task.tokenizer
        if ours.size != theirs.size or ours.tokens(range(ours.size)) != theirs.tokens(range(theirs.size)):
            raise InputError("draft: its vocabulary is another one; train it with this model's tokenizer")

    def _writer(self, settings: GenerationSettings | None, stop: Sequence[str], top: int = 0) -> Writer:
        return Writer(
            model=self.model,
            task=self.task,
            settings=self.usual if settings is None else settings,
            stop=StopText(self.task.tokenizer, stop) if stop else None,
            top=top,
        )

    def _scored(
        self, asked: Sequence[tuple[Sequence[int], Window]], stretch: int
    ) -> list[tuple[list[float], list[bool]]]:
        """Log-probability of each token that a window of a text tells, and whether it was the most probable."""
        end, padding = self.task.tokenizer.end_id, self.task.tokenizer.padding_id
        read = Tokens.pad(
            [[end, *ids][window.start : window.stop] for ids, window in asked], padding_id=padding, device=self.device
        )
        told = Tokens.pad(
            [ids[window.start : window.stop] for ids, window in asked], padding_id=padding, device=self.device
        ).ids
        found: list[torch.Tensor] = []
        right: list[torch.Tensor] = []
        if not getattr(self.model, "reads_in_parts", True):
            stretch = max(read.ids.shape[1], 1)
        with torch.no_grad():
            state = self.model.start(len(asked))
            for start in range(0, read.ids.shape[1], stretch):
                part = slice(start, start + stretch)
                logits, state = self.model.read(Tokens(read.ids[:, part], read.valid[:, part], read.padded), state)
                check_finite(logits, "these texts", where=read.valid[:, part])
                labels = told[:, part].unsqueeze(-1)
                wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
                chosen = wide.gather(-1, labels)
                found.append((chosen - wide.logsumexp(dim=-1, keepdim=True)).squeeze(-1))
                right.append(stands_out(wide, labels.squeeze(-1)))
        for watcher in self._watchers():
            watcher.read(read)
        logs, rights = torch.cat(found, dim=1).tolist(), torch.cat(right, dim=1).tolist()
        kept = [slice(window.first - window.start, window.stop - window.start) for _, window in asked]
        return [(log[part], hit[part]) for part, log, hit in zip(kept, logs, rights, strict=True)]
