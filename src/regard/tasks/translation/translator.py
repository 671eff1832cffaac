"""Translation: strings in one language to strings in another, or any other pairs of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from regard.data.token_store import TokenStore
from regard.generation import GenerationSettings, Hypothesis
from regard.parts import own_metrics
from regard.prepared import PreparedTransformer, QuantisedPrecision
from regard.tasks.gaps import refuse_empty
from regard.tasks.pairs import PairBatch, PairPredictor, written_tokens
from regard.tasks.translation.metrics import compared
from regard.tasks.translation.task import TranslationTask
from regard.text.unknown import warn_of_unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """One translation.

    Arguments:
        text: the best translation.
        score: what hypotheses were compared by: log-probability over length penalty, plus coverage penalty.
        log_probability: of the text given the source, natural log.
        source: the text it was made from.
        source_tokens, target_tokens: what the model read and wrote, token by token, end tokens included.
        alternatives: the further hypotheses of an n-best search as (text, score), best first.
    """

    text: str
    score: float
    log_probability: float
    source: str
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()


class Translator(PairPredictor[TranslationTask]):
    """A translation model ready to use: strings in, `Translation`s out.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizers and decoding settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("exact_match", "bleu")
    judged_by_own: ClassVar[bool] = True

    def quantised(self, precision: QuantisedPrecision) -> Translator:
        """The same with weights of 8 or 4 bits, for use on a processor, where it is faster.

        The model itself is left as it is. What the rounding costs, `regard evaluate MODEL PAIRS precision=int8` tells.

        Arguments:
            precision: `int8` or `int4`, as `regard.prepared.QuantisedWeights` says.

        Raises:
            InputError: for a model that is no Transformer, is on another device, or is looked at.
        """
        prepared = PreparedTransformer(self.model, precision)
        return Translator(prepared, self.task, recipe=self.recipe, metrics=self.metrics)

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text, the tag of the language wanted in front where there are several."""
        return self.task.encode_sources([text], to)[0]

    @property
    def usual(self) -> GenerationSettings:
        """The folder's own settings."""
        return self.task.generation

    @property
    def never(self) -> tuple[int, ...]:
        """The tags of languages."""
        return self.task.tag_ids

    def translate(self, text: str, settings: GenerationSettings | None = None, *, to: str | None = None) -> Translation:
        """Translate one text.

        Arguments:
            text: in the source language, not empty.
            settings: how to decode; the folder's own where None.
            to: the language wanted, of a model of several.

        Raises:
            InputError: for an empty text or one longer than the model has positions for, and for a language that is missing
                or not one of the model's.
        """
        return self.translate_batch([text], settings, to=to)[0]

    def translate_batch(
        self,
        texts: Sequence[str],
        settings: GenerationSettings | None = None,
        *,
        to: str | None = None,
        batch_size: int = 64,
    ) -> list[Translation]:
        """Translate many texts, in batches of like length; the answers come in the order of the texts.

        Arguments:
            texts: in the source language, none empty.
            settings: how to decode; the folder's own where None.
            to: the language wanted, of a model of several.
            batch_size: texts decoded together. It does not change the answers, only memory and speed.

        Raises:
            InputError: as `translate`.
        """
        settings = (settings or self.task.generation).with_ids(self.task.target_tokenizer)
        refuse_empty(texts, why="there is nothing to translate")
        encoded = self.task.encode_sources(texts, to)
        warn_of_unknown(self.task.source_tokenizer, texts, encoded)
        return self.searched(
            encoded,
            settings,
            lambda i, found: self._translation(texts[i], encoded[i], found),
            batch_size=batch_size,
        )

    def _translation(self, text: str, ids: Sequence[int], found: Sequence[Hypothesis]) -> Translation:
        source, target = self.task.source_tokenizer, self.task.target_tokenizer
        best = found[0]
        return Translation(
            text=target.decode(best.tokens),
            score=best.score,
            log_probability=best.log_probability,
            source=text,
            source_tokens=tuple(source.tokens([*ids, source.end_id])),
            target_tokens=written_tokens(self.task, best),
            alternatives=tuple((target.decode(other.tokens), other.score) for other in found[1:]),
        )

    def teacher_forced(self, pairs: Sequence[tuple[str, str]], *, to: str | None = None) -> PairBatch:
        """Pairs of texts as the model reads them in training, on the model's device.

        Raises:
            InputError: for a language `to` that is missing or not one of the model's.
        """
        sources = self.task.encode_sources([source for source, _ in pairs], to)
        targets = self.task.target_tokenizer.encode_batch([target for _, target in pairs])
        return self.task.batch(sources, targets).to(self.device)

    def with_generation(self, settings: GenerationSettings) -> Translator:
        """The same model with other default settings for decoding."""
        task = replace(self.task, generation=settings)
        return Translator(self.model, task, recipe=self.recipe, metrics=self.metrics)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and BLEU on about `count` validation pairs, the first of each language."""
        rows = self.task.groups(data) or {None: range(len(data))}
        share = -(-count // len(rows))
        found: dict[str, float] = {}
        texts: list[str] = []
        references: list[str] = []
        for language, mine in rows.items():
            pairs = self.task.texts(data, mine[:share])
            answers = [each.text for each in self.translate_batch([source for source, _ in pairs], to=language)]
            wanted = [target for _, target in pairs]
            if language is not None and pairs:
                found |= {f"{name}.{language}": value for name, value in self._judged(answers, wanted).items()}
            texts += answers
            references += wanted
        return self._judged(texts, references) | found

    def _judged(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        metrics, _, _ = compared(texts, references, self.task.target_tokenizer)
        return {name: metrics.get(name, 0.0) for name in (*self.judged, *own_metrics(self.task.name))}
