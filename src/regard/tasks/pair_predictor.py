"""What all models have in common, once ready to use, that read one sequence of tokens and write another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis, StopRule, search
from regard.tasks.observer import Observers
from regard.tasks.pairs import PairTask
from regard.tasks.predictor import Predictor

P = TypeVar("P", bound=PairTask)
R = TypeVar("R")


class PairPredictor(Predictor[P]):
    """An encoder-decoder ready to use: what it is asked is encoded, searched for in batches, and made into results.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizers and settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    @abstractmethod
    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids that the model reads for a text, without the end token.

        Arguments:
            to: the language or part wanted, of a model of several.

        Raises:
            InputError: for a text, or something wanted, that the model cannot be asked.
        """

    def encode_target(self, text: str) -> list[int]:
        """The token ids of a text that the model may write, without the end token."""
        return self.task.sides[1].encode(text)

    @property
    @abstractmethod
    def usual(self) -> GenerationSettings:
        """How the model decodes unless told otherwise."""

    @property
    @abstractmethod
    def never(self) -> tuple[int, ...]:
        """Ids that it never writes."""

    def searched(
        self,
        sources: Sequence[Sequence[int]],
        settings: GenerationSettings,
        make: Callable[[int, Sequence[Hypothesis]], R],
        *,
        batch_size: int = 64,
        stop: Sequence[StopRule] = (),
    ) -> list[R]:
        """What is made of the hypotheses about each source, in batches of like length; in the order of the sources.

        Arguments:
            sources: token ids, without the end token.
            settings: how to decode.
            make: the result of a source's number and its hypotheses.
            batch_size: sources decoded together. It changes memory and speed, and no answer but what is drawn.
            stop: rules that end an answer; see `regard.generation.search`.

        Raises:
            InputError: as `regard.generation.search` does.
        """
        # The model's table may have more rows than there are tokens, as T5's has.
        forbid = (*self.never, *range(self.task.sides[1].size, self.model.config.target_vocabulary))
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        answers: dict[int, R] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            source = self.task.read([sources[i] for i in rows]).to(self.device)
            watchers = self._watchers()
            observer = Observers(watchers) if watchers else None
            found = search(self.model, source, settings, observer=observer, forbid=forbid, stop=stop)
            made = [make(i, hypotheses) for i, hypotheses in zip(rows, found, strict=True)]
            for watcher in watchers:
                watcher.predicted(made, found)
            answers.update(zip(rows, made, strict=True))
        return [answers[i] for i in range(len(sources))]

    def refuse_too_long(self, sources: Sequence[Sequence[int]]) -> None:
        """Refuse sources that have more tokens than the model has positions for.

        Raises:
            InputError: naming the first one by its number, from 1.
        """
        limit = self.model.maximum_source_length
        for number, ids in enumerate(sources, start=1):
            if limit is not None and len(ids) + 1 > limit:  # with its end token
                raise InputError(
                    f"text {number} has {len(ids) + 1} tokens and the model has positions for {limit}; shorten it, or train with "
                    f"a larger {self.model.length_setting}"
                )


def written_tokens(task: PairTask, found: Hypothesis) -> tuple[str, ...]:
    """The tokens of a hypothesis as strings, the end token included where it came to one."""
    tokenizer = task.sides[1]
    end = [tokenizer.end_id] if found.length > len(found.tokens) else []
    return tuple(tokenizer.tokens([*found.tokens, *end]))
