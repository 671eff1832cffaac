"""Pre-training by span corruption: generate the spans that were removed from a text (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.data.pretraining import SpanCorruption, spans_of_target
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis
from regard.structure import from_mapping
from regard.tasks.documents import DOCUMENTS
from regard.tasks.generation_config import foreign_pair_tokenizer, pair_obstacle, write_pair_tokenizer_config
from regard.tasks.pairs import PairPredictor, PairTask, written_tokens
from regard.tasks.predictor import refuse_gaps
from regard.tasks.preparation import Prepared, TokenizerSettings
from regard.tasks.spec import TaskSpec
from regard.tasks.stretches import STRETCH, StretchData, StretchTask, evaluate_stretches, prepare_stretches
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTextData(StretchData):
    """The `data` section of a recipe.

    The documents are concatenated and the stream is cut into stretches of equal length, from each of which spans are removed.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: other files of plain text; if null, documents are held out from the training files.
        validation_share: the share of documents to hold out.
        validation_size: the number of documents to hold out instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; some of its
            topics are used for validation.
        documents: where a document ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` restores the spaces and hyphens of the original text, and reads `<unk>` as the unknown token.
        length: the number of tokens of an input, with its sentinels and end token; the original stretch of text has more.
        density: the share of the tokens that are removed.
        mean_span: the mean number of tokens of a span.
        corruption: `dynamic` removes other spans in every epoch, `static` the same spans in every epoch.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    density: float = 0.15
    mean_span: float = 3.0
    corruption: Literal["dynamic", "static"] = "dynamic"

    def __post_init__(self) -> None:
        StretchData.__post_init__(self)
        self.taking_out(0)

    def taking_out(self, seed: int) -> SpanCorruption:
        """How spans are removed.

        Raises:
            InputError: for a density or mean out of range.
        """
        return SpanCorruption(
            density=self.density, mean_span=self.mean_span, static=self.corruption == "static", seed=seed
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SentinelTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `unigram` (as published), `bpe`, `wordpiece`, `word` or `character`.
        size: the maximum size of the vocabulary, sentinels included.
        lowercase: whether to lower-case texts.
        path: a folder or tokenizer.json to use instead of training a tokenizer; null with `model.pretrained` uses the tokenizer
            of that model.
        sentinels: the number of sentinels in a trained tokenizer, one for each removed span.
    """

    kind: Literal["unigram", "bpe", "wordpiece", "word", "character"] = "unigram"
    sentinels: int = 100


@dataclass(frozen=True, slots=True)
class SpanCorruptionTask(StretchTask):
    """Removes spans from stretches of text, and turns a model's outputs into a loss (Raffel et al. 2020, section 3.1.4).

        loss = mean over the target's tokens, sentinels and end token included, of -log p(token | tokens before it, input)

    Arguments:
        tokenizer: for input and target; it has sentinels.
        corruption: how spans are removed.
    """

    name: ClassVar[str] = "span_corruption"

    tokenizer: Tokenizer
    corruption: SpanCorruption = field(default_factory=SpanCorruption)

    @property
    def usual(self) -> GenerationSettings:
        """The default decoding settings: greedy search, at most 100 tokens."""
        return FILLING

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizer of source and target, which is the same."""
        return self.tokenizer, self.tokenizer

    def corrupted(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], draw: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The inputs, with sentinels instead of spans, and the targets, the removed spans after their sentinels."""
        found = self.corruption.corrupt(texts, rows, self.tokenizer.sentinels, draw=draw)
        return [each.input.tolist() for each in found], [each.target.tolist() for each in found]

    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """The numbers of tokens of each input and each target, end tokens included, (N, 2)."""
        return self.corruption.lengths(lengths)

    def stretch(self, length: int) -> int:
        """The maximum number of tokens of a stretch whose input has at most `length` tokens."""
        return self.corruption.stretch(length)

    def check_stretch(self, length: int) -> None:
        """Refuse stretches with more spans than there are sentinels.

        Raises:
            InputError: with both numbers.
        """
        self.corruption.check_sentinels(length, self.tokenizer.sentinels)

    def noted(self, lengths: np.ndarray) -> str:
        """The number of removed tokens and spans, for a message."""
        noise, spans = self.corruption.counts(lengths)
        read, written = self.sizes(lengths).mean(axis=0).tolist()
        return (
            f"of which {noise.sum() / lengths.sum():.1%} are removed in {spans.sum():,} spans: inputs of {read:.1f} tokens, "
            f"targets of {written:.1f}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse stretches with more spans than there are sentinels, and sequences longer than the model's positions.

        Raises:
            InputError: naming the settings.
        """
        longest = max(int(store.lengths(STRETCH).max(initial=2)) for store in (train, validation))
        self.check_stretch(longest)
        PairTask.check(self, model, train, validation)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of stretches and tokens and the size of the vocabulary, as one line."""
        read, predicted = self.lengths(train).sum(axis=0).tolist()
        return (
            f"{len(train):,} stretches to learn from ({int(train.lengths(STRETCH).sum()):,} tokens; {read:,} are read and "
            f"{predicted:,} predicted in an epoch), {len(validation):,} to validate on; a vocabulary of {self.tokenizer.size:,}"
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        return {"name": self.name, "corruption": asdict(self.corruption)}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> SpanCorruptionTask:
        """The task that `save` wrote into `folder`.

        Raises:
            InputError: for a tokenizer without sentinels.
        """
        corruption = from_mapping(SpanCorruption, values.get("corruption", {}), f"{folder / 'regard.json'}: task")
        return cls(with_sentinels(Tokenizer.load(folder), str(folder)), corruption)

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        return ['print(model.fill("... <extra_id_0> ...").best)']

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs would tokenize texts differently, as half a sentence; empty if they would not."""
        del config  # the model's table may have more rows than there are tokens, as for the published T5s
        return pair_obstacle(self.tokenizer, self.tokenizer, self.tokenizer.size)

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json if other programs open the model."""
        if opens:
            write_pair_tokenizer_config(folder, self.tokenizer, None)


def with_sentinels(tokenizer: Tokenizer, where: str) -> Tokenizer:
    """Check that a tokenizer has sentinels; return it.

    Raises:
        InputError: if it has none.
    """
    if not tokenizer.sentinels:
        raise InputError(
            f"{where}: the tokenizer has no sentinels (<extra_id_0> and so on), so spans cannot be replaced; use one that "
            "has them, or train one with tokenizer.sentinels=100"
        )
    return tokenizer


FILLING = GenerationSettings(maximum_length=100)
"""The default decoding settings for filling gaps: greedy search, at most 100 tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledSpans:
    """A text whose gaps a model has filled.

    Arguments:
        text: the given text with its sentinels.
        best: the text with each gap filled.
        spans: the generated text of each sentinel, in order; None if the model generated none, then its gap is left empty.
        tokens: all generated tokens, with sentinels and the end token.
        log_probability: their log-probability, natural log.
    """

    text: str
    best: str
    spans: tuple[str | None, ...]
    tokens: tuple[str, ...]
    log_probability: float


class SpanFiller(PairPredictor[SpanCorruptionTask]):
    """A model pre-trained by span corruption, ready to use: it generates a text for each sentinel.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: the tokenizer, and how spans were removed in training.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    def fill(self, text: str, settings: GenerationSettings | None = None) -> FilledSpans:
        """Fill the gaps of a text such as "Thank you <extra_id_0> me to your party <extra_id_1> week.".

        Arguments:
            text: a text with the sentinels `<extra_id_0>`, `<extra_id_1>` and so on, in this order. Each one is replaced by any
                number of whole words; spaces around it are ignored.
            settings: how to decode; None for `FILLING`.

        Raises:
            InputError: for a text without sentinels, with others or in another order, or one that is too long.
        """
        return self.fill_batch([text], settings)[0]

    def fill_batch(
        self, texts: Sequence[str], settings: GenerationSettings | None = None, *, batch_size: int = 64
    ) -> list[FilledSpans]:
        """Fill the gaps of many texts; the results are in the order of the texts.

        Arguments:
            settings: as in `fill`.
            batch_size: the number of texts decoded together. It changes memory and speed, and sampled results.

        Raises:
            InputError: as `fill`.
        """
        if isinstance(texts, str):
            raise InputError("a single string was given instead of a list of texts; put it in a list")
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
            InputError: as `fill`, and if `to` is given, because the model has no languages or parts.
        """
        if to is not None:
            raise InputError(f"to is {to!r}, and the model only fills gaps; leave it out")
        return self.encode(text)

    def encode_target(self, text: str) -> list[int]:
        """The token ids of a text with sentinels, such as "<extra_id_0> for inviting <extra_id_1> last"."""
        return self.encode(text)

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that are never generated: the unknown token."""
        unknown = self.task.tokenizer.unknown_id
        return () if unknown is None else (unknown,)

    def encode(self, text: str, number: int = 1) -> list[int]:
        """The token ids of a text with sentinels, as in a corrupted training text.

        Arguments:
            number: the number of the text in messages.

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
                f"text {number} ({text!r:.60}) {fault}; write <extra_id_0>, <extra_id_1> and so on, in this order and each "
                "once, for the gaps"
            )
        return ids

    @property
    def _bears_spaces(self) -> bool:
        """Whether tokens include the space before them; then the spaces next to a sentinel belong to the sentinel."""
        return self.task.tokenizer.kind not in ("character", "byte_bpe")

    def _encoded(self, part: str) -> list[int]:
        """The token ids of the text between two sentinels."""
        kept = part.strip() if self._bears_spaces else part
        return self.task.tokenizer.encode(kept) if kept else []

    def _decoded(self, span: Sequence[int]) -> str:
        """The generated text of a sentinel."""
        text = self.task.tokenizer.decode(span)
        return text.strip() if self._bears_spaces else text

    def _filled(self, text: str, ids: Sequence[int], found: Hypothesis) -> FilledSpans:
        tokenizer = self.task.tokenizer
        used = sum(sentinel in ids for sentinel in tokenizer.sentinels)
        generated = spans_of_target(found.tokens, tokenizer.sentinels)[:used]
        spans = tuple(None if span is None else self._decoded(span) for span in generated)
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


def prepare_spans(
    data: SpanTextData,
    tokenizer: SentinelTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[SpanCorruptionTask]:
    """Read the texts once for the tokenizer and once for the tokens, and write both into `folder`.

    Texts can be larger than memory: documents are read, and stretches written, one after another.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out documents and of removed spans.
        given, given_validation: documents in memory instead of those of `data`, in a form that `DOCUMENTS` accepts.

    Raises:
        InputError: for data that cannot be read, too little data, or a tokenizer without sentinels.
    """
    corruption = data.taking_out(seed)
    return prepare_stretches(
        SpanCorruptionTask,
        lambda found, where: SpanCorruptionTask(with_sentinels(found, where), corruption),
        data,
        tokenizer,
        folder,
        seed=seed,
        given=given,
        given_validation=given_validation,
    )


def spans_from_hf(folder: Path, config: Any) -> SpanCorruptionTask:
    """The task of a folder that another program wrote: its tokenizer, with the published density and length of spans.

    Arguments:
        config: the config of the model in the folder.

    Raises:
        InputError: if there is no tokenizer.json, if it does not match config.json, or if it has no sentinels.
    """
    return SpanCorruptionTask(with_sentinels(foreign_pair_tokenizer(folder, config)[0], str(folder)))


SPAN_CORRUPTION = TaskSpec(
    task=SpanCorruptionTask,
    predictor=SpanFiller,
    interface="encoder_decoder",
    sections={"data": SpanTextData, "tokenizer": SentinelTokenizerSettings},
    prepare=prepare_spans,
    evaluate=evaluate_stretches,
    derived_config={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    examples=DOCUMENTS,
    from_hf=spans_from_hf,
)
