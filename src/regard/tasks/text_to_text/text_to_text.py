"""A text-to-text model ready to use: texts in, texts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from regard.data.sentences import split_sentences
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis
from regard.tasks.gaps import refuse_empty
from regard.tasks.language_modelling.stop_text import StopText
from regard.tasks.language_modelling.writer import Written
from regard.tasks.pairs import PairPredictor, written_tokens
from regard.tasks.text_to_text.metrics import measured
from regard.tasks.text_to_text.task import TextToTextTask
from regard.text.unknown import warn_of_unknown


class TextToText(PairPredictor[TextToTextTask]):
    """A text-to-text model ready to use: texts in, texts out; what is wanted stands in front of a text.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizer, prefixes and decoding settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("exact_match", "f1", "bleu", "rougeL")

    @property
    def longest(self) -> int | None:
        """The most tokens that are read of a text, prefix and end token included; None for any number."""
        limits = [each for each in (self.model.maximum_source_length, self.task.maximum_source) if each is not None]
        return min(limits, default=None)

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text, the prefix of the part wanted in front."""
        return self.encode([text], part=to)[0]

    @property
    def usual(self) -> GenerationSettings:
        """The folder's own settings."""
        return self.task.generation

    @property
    def never(self) -> tuple[int, ...]:
        """Sentinels and the unknown token, which say nothing to whoever reads the answer."""
        tokenizer = self.task.tokenizer
        unknown = () if tokenizer.unknown_id in (None, tokenizer.end_id) else (tokenizer.unknown_id,)
        return (*tokenizer.sentinels, *unknown)

    def generate(
        self,
        texts: str | Sequence[str],
        settings: GenerationSettings | None = None,
        *,
        part: str | None = None,
        prefix: str | None = None,
        stop: Sequence[str] = (),
        batch_size: int = 64,
        cut: bool = False,
    ) -> Any:
        """What the model writes for a text, or for each of several.

        Arguments:
            texts: one text, or several, none empty.
            settings: how to decode; the folder's own where None.
            part: the part of a mixture whose prefix is put in front. None puts that of a model of one part; of a mixture none,
                and the text says itself what is wanted.
            prefix: what to put in front instead.
            stop: strings that end an answer and are not part of it.
            batch_size: texts decoded together. It changes memory and speed, and no answer but what is drawn.
            cut: read the beginning of a text that is longer than `longest`, as in training, instead of refusing it.

        Returns:
            A `Written`, or a list of them.

        Raises:
            InputError: for an empty text, one that is too long, a part that is not there, and stops in beam search.
        """
        if isinstance(texts, str):
            return self.generate([texts], settings, part=part, prefix=prefix, stop=stop, cut=cut)[0]
        encoded = self.encode(texts, part=part, prefix=prefix, cut=cut)
        return self._written(texts, encoded, settings, stop, batch_size)

    def encode(
        self, texts: Sequence[str], *, part: str | None = None, prefix: str | None = None, cut: bool = False
    ) -> list[list[int]]:
        """The token ids of texts with what is put in front, without the end token.

        Raises:
            InputError: as `generate`.
        """
        before = self.task.prefix_of(part) if prefix is None else prefix
        refuse_empty(texts)
        whole = [before + text for text in texts]
        encoded = self.task.tokenizer.encode_batch(whole)
        warn_of_unknown(self.task.tokenizer, whole, encoded)
        limit = self.longest
        if limit is None:
            return encoded
        too_long = next((number for number, ids in enumerate(encoded) if len(ids) + 1 > limit), None)
        if too_long is not None and not cut:
            raise InputError(
                f"text {too_long + 1} has {len(encoded[too_long]) + 1} tokens and the model reads {limit}; shorten it, or have "
                "its beginning read (cut), or piece after piece (pieces_of)"
            )
        return [ids[: limit - 1] for ids in encoded]

    def pieces_of(self, text: str, *, part: str | None = None, prefix: str | None = None) -> list[str]:
        """A text in as few pieces as the model can read, each of whole sentences; itself where it fits.

        A sentence that alone is too long is cut between words.

        Arguments:
            part, prefix: what is to be put in front of each, as in `generate`.

        Raises:
            InputError: for a part that is not there.
        """
        before = self.task.prefix_of(part) if prefix is None else prefix
        limit = self.longest

        def length(piece: str) -> int:
            return len(self.task.tokenizer.encode(before + piece)) + 1

        if limit is None or length(text) <= limit:
            return [text]
        units: list[str] = []
        for sentence in split_sentences(" ".join(text.split())):
            units += [sentence] if length(sentence) <= limit else sentence.split()
        pieces: list[str] = []
        for unit in units:
            if pieces and length(f"{pieces[-1]} {unit}") <= limit:
                pieces[-1] += f" {unit}"
            else:
                pieces.append(unit)
        return pieces

    def with_generation(self, settings: GenerationSettings) -> TextToText:
        """The same model with other default settings for decoding."""
        task = replace(self.task, generation=settings)
        return TextToText(self.model, task, recipe=self.recipe, metrics=self.metrics)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Metrics of what is written for about `count` validation pairs, the first of each part."""
        rows = self.task.groups(data) or {"": range(len(data))}
        share = -(-count // len(rows))
        found: dict[str, float] = {}
        texts: list[str] = []
        references: list[tuple[str]] = []
        for name, mine in rows.items():
            pairs = self.task.texts(data, mine[:share])
            answers = [each.text for each in self._written([""] * len(pairs), [ids for ids, _ in pairs], None, (), 64)]
            wanted = [(target,) for _, target in pairs]
            if name and pairs:
                found |= {f"{metric}.{name}": value for metric, value in self._judged(answers, wanted).items()}
            texts += answers
            references += wanted
        return self._judged(texts, references) | found

    def _judged(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        metrics, _, _ = measured(texts, references, self.task.tokenizer)
        return {name: metrics.get(name, 0.0) for name in self.judged}

    def _written(
        self,
        texts: Sequence[str],
        encoded: Sequence[Sequence[int]],
        settings: GenerationSettings | None,
        stop: Sequence[str],
        batch_size: int,
    ) -> list[Written]:
        """What is written for sources of token ids; `texts` is what they were made of."""
        tokenizer = self.task.tokenizer
        ends = StopText(tokenizer, stop) if stop else None

        def made(number: int, found: Sequence[Hypothesis]) -> Written:
            decoded = [tokenizer.decode(each.tokens) for each in found]
            best, *others = decoded if ends is None else map(ends.cut, decoded)
            return Written(
                text=best,
                prompt=texts[number],
                tokens=written_tokens(self.task, found[0]),
                log_probabilities=found[0].token_log_probabilities,
                finished=found[0].finished,
                alternatives=tuple(others),
            )

        return self.searched(
            encoded,
            (settings or self.task.generation).with_ids(tokenizer),
            made,
            batch_size=batch_size,
            stop=() if ends is None else (ends,),
        )
