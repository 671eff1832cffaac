"""A model that was pre-trained by span corruption, ready to use: it writes what is missing in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.span_corruption import told_spans
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis
from regard.tasks.gaps import refuse_gaps
from regard.tasks.pairs import PairPredictor, written_tokens
from regard.tasks.span_corruption.task import SpanCorruptionTask

FILLING = GenerationSettings(maximum_length=100)
"""How gaps are filled unless told otherwise: the most probable token each time, a hundred at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledSpans:
    """What a model put in the gaps of a text.

    Arguments:
        text: as given, with its sentinels.
        best: the text with each gap filled.
        spans: what was written for each sentinel, in order; None where the model left it out, and then nothing is put there.
        tokens: all that was written, the sentinels and the end token included.
        log_probability: of that, natural log.
    """

    text: str
    best: str
    spans: tuple[str | None, ...]
    tokens: tuple[str, ...]
    log_probability: float


class SpanFiller(PairPredictor[SpanCorruptionTask]):
    """A model pre-trained by span corruption: it writes what is to stand at each sentinel of a text.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: the tokenizer, and how spans were taken out in training.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    def fill(self, text: str, settings: GenerationSettings | None = None) -> FilledSpans:
        """What stands in the gaps of a text, such as "Thank you <extra_id_0> me to your party <extra_id_1> week.".

        Arguments:
            text: its sentinels are `<extra_id_0>`, `<extra_id_1>` and so on, in this order. Each stands for any number of whole
                words; spaces around it are not read.
            settings: how to decode; `FILLING` where None.

        Raises:
            InputError: for a text without sentinels, with others or in another order, or one that is too long.
        """
        return self.fill_batch([text], settings)[0]

    def fill_batch(
        self, texts: Sequence[str], settings: GenerationSettings | None = None, *, batch_size: int = 64
    ) -> list[FilledSpans]:
        """The same for many texts; the answers come in the order of the texts.

        Arguments:
            settings: as in `fill`.
            batch_size: texts decoded together. It changes memory and speed, and no answer but what is drawn.

        Raises:
            InputError: as `fill`.
        """
        if isinstance(texts, str):
            raise InputError("one string given where a list of texts is wanted; put it in a list")
        tokenizer = self.task.tokenizer
        refuse_gaps(texts)
        encoded = [self.encode(text, number) for number, text in enumerate(texts, start=1)]
        self.refuse_too_long(encoded)
        return self.searched(
            encoded,
            (settings or FILLING).with_ids(tokenizer),
            lambda i, found: self._filled(texts[i], encoded[i], found[0]),
            batch_size=batch_size,
        )

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text with sentinels.

        Raises:
            InputError: as `fill`, and for a language or part.
        """
        if to is not None:
            raise InputError(f"to is {to!r}, and the model fills gaps alone; leave it out")
        return self.encode(text)

    def encode_target(self, text: str) -> list[int]:
        """The token ids of a text with sentinels, such as "<extra_id_0> for inviting <extra_id_1> last"."""
        return self.encode(text)

    @property
    def usual(self) -> GenerationSettings:
        """The most probable tokens, a hundred at most."""
        return FILLING

    @property
    def never(self) -> tuple[int, ...]:
        """The unknown token."""
        unknown = self.task.tokenizer.unknown_id
        return () if unknown is None else (unknown,)

    def encode(self, text: str, number: int = 1) -> list[int]:
        """The token ids of a text with sentinels, as they would stand in a corrupted one.

        Arguments:
            number: of the text, for messages.

        Raises:
            InputError: for a text without sentinels, or with others, or in another order.
        """
        if not isinstance(text, str):
            raise InputError(f"text {number} is {text!r:.80}; give strings")
        tokenizer = self.task.tokenizer
        names = tokenizer.tokens(tokenizer.sentinels)
        ids: list[int] = []
        rest, used = text, 0
        while used < len(names) and names[used] in rest:
            before, _, rest = rest.partition(names[used])
            ids += [*self._encoded(before), tokenizer.sentinels[used]]
            used += 1
        ids += self._encoded(rest)
        stray = next((name for name in names if text.count(name) > (name in names[:used])), None)
        if used == 0 or stray is not None:
            fault = "has no <extra_id_0>" if used == 0 else f"has {stray} out of its place"
            raise InputError(
                f"text {number} ({text!r:.60}) {fault}; write <extra_id_0>, <extra_id_1> and so on, in this order and each once, "
                "where something is missing"
            )
        return ids

    @property
    def _bears_spaces(self) -> bool:
        """Whether tokens bear the space before them: those at the ends of a text's parts are then the sentinels'."""
        return self.task.tokenizer.kind not in ("character", "byte_bpe")

    def _encoded(self, part: str) -> list[int]:
        """The token ids of what stands between two sentinels."""
        kept = part.strip() if self._bears_spaces else part
        return self.task.tokenizer.encode(kept) if kept else []

    def _decoded(self, span: Sequence[int]) -> str:
        """What was written for a sentinel, as a text."""
        text = self.task.tokenizer.decode(span)
        return text.strip() if self._bears_spaces else text

    def _filled(self, text: str, ids: Sequence[int], found: Hypothesis) -> FilledSpans:
        tokenizer = self.task.tokenizer
        used = sum(sentinel in ids for sentinel in tokenizer.sentinels)
        told = told_spans(found.tokens, tokenizer.sentinels)[:used]
        spans = tuple(None if span is None else self._decoded(span) for span in told)
        best = text
        for name, span in zip(tokenizer.tokens(tokenizer.sentinels), spans, strict=False):
            best = best.replace(name, span or "")
        return FilledSpans(
            text=text,
            best=best,
            spans=spans,
            tokens=written_tokens(self.task, found),
            log_probability=found.log_probability,
        )
