"""Pre-training by span corruption: tell what was where spans were taken out (Raffel et al. 2020)."""

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

    The documents are laid end to end and the stream is cut into stretches of equal length, out of each of which spans are taken.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training files, document by document, where null.
        validation_share: of the documents, to be held out.
        validation_size: so many instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; a few of its
            topics are for validation.
        documents: where one ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` undoes what those sets did to spaces and hyphens, and reads `<unk>` as the unknown token.
        length: tokens of an input, its sentinels and its end token included; the stretch of text that it is made of has more.
        density: share of the tokens taken out.
        mean_span: tokens of a span on average.
        corruption: `dynamic` takes other spans out in every epoch, `static` the same in each.

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
        """How spans are taken out.

        Raises:
            InputError: for a density or mean that is none.
        """
        return SpanCorruption(
            density=self.density, mean_span=self.mean_span, static=self.corruption == "static", seed=seed
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SentinelTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `unigram` (as published), `bpe`, `wordpiece`, `word` or `character`.
        size: the largest vocabulary, sentinels included.
        lowercase: lowercase the text.
        path: a folder or tokenizer.json to take instead of training one; that of `model.pretrained` where there is one.
        sentinels: how many a trained one has, each to stand for a span that was taken out.
    """

    kind: Literal["unigram", "bpe", "wordpiece", "word", "character"] = "unigram"
    sentinels: int = 100


@dataclass(frozen=True, slots=True)
class SpanCorruptionTask(StretchTask):
    """What takes spans out of stretches of text, and turns a model's outputs into a loss (Raffel et al. 2020, section 3.1.4).

        loss = mean over the target's tokens, sentinels and end token included, of -log p(token | those before, input)

    Arguments:
        tokenizer: for input and target; it has sentinels.
        corruption: how spans are taken out.
    """

    name: ClassVar[str] = "span_corruption"

    tokenizer: Tokenizer
    corruption: SpanCorruption = field(default_factory=SpanCorruption)

    @property
    def usual(self) -> GenerationSettings:
        """The most probable tokens, a hundred at most."""
        return FILLING

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The one tokenizer, twice."""
        return self.tokenizer, self.tokenizer

    def corrupted(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], draw: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """What is left of some stretches, and what was taken out of them."""
        found = self.corruption.corrupt(texts, rows, self.tokenizer.sentinels, draw=draw)
        return [each.input.tolist() for each in found], [each.target.tolist() for each in found]

    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """Tokens of each input and each target, end tokens included, (N, 2)."""
        return self.corruption.lengths(lengths)

    def stretch(self, length: int) -> int:
        """The most tokens a stretch can have for its input to be no longer than `length`."""
        return self.corruption.stretch(length)

    def check_stretch(self, length: int) -> None:
        """Refuse stretches that have more spans than there are sentinels.

        Raises:
            InputError: with both numbers.
        """
        self.corruption.check_sentinels(length, self.tokenizer.sentinels)

    def noted(self, lengths: np.ndarray) -> str:
        """How much is taken out."""
        noise, spans = self.corruption.counts(lengths)
        read, written = self.sizes(lengths).mean(axis=0).tolist()
        return (
            f"of which {noise.sum() / lengths.sum():.1%} are taken out in {spans.sum():,} spans: inputs of {read:.1f} "
            "tokens, "
            f"targets of {written:.1f}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse stretches that have more spans than there are sentinels, and what the model has too few positions for.

        Raises:
            InputError: naming the settings.
        """
        longest = max(int(store.lengths(STRETCH).max(initial=2)) for store in (train, validation))
        self.check_stretch(longest)
        PairTask.check(self, model, train, validation)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Stretches, tokens and vocabulary in a few words."""
        read, told = self.lengths(train).sum(axis=0).tolist()
        return (
            f"{len(train):,} stretches to learn from ({int(train.lengths(STRETCH).sum()):,} tokens; {read:,} are read and "
            f"{told:,} written in an epoch), {len(validation):,} to validate on; a vocabulary of {self.tokenizer.size:,}"
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
        """Why other programs could not read texts as the tokenizer here does, as half a sentence; empty where they can."""
        del config  # a model's table may have rows that no token has, as the published T5s have
        return pair_obstacle(self.tokenizer, self.tokenizer, self.tokenizer.size)

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json, where other programs open the model."""
        if opens:
            write_pair_tokenizer_config(folder, self.tokenizer, None)


def with_sentinels(tokenizer: Tokenizer, where: str) -> Tokenizer:
    """The tokenizer itself.

    Raises:
        InputError: where it has no sentinels.
    """
    if not tokenizer.sentinels:
        raise InputError(
            f"{where}: the tokenizer has no sentinels (<extra_id_0> and so on), so spans cannot be replaced; use one that "
            "has them, or train one with tokenizer.sentinels=100"
        )
    return tokenizer


FILLING = GenerationSettings(maximum_length=100)
"""The default decoding settings for filling gaps: the most probable token each time, a hundred at most."""


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
    """A model pre-trained by span corruption: it writes what is to be at each sentinel of a text.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: the tokenizer, and how spans were taken out in training.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    def fill(self, text: str, settings: GenerationSettings | None = None) -> FilledSpans:
        """What is in the gaps of a text, such as "Thank you <extra_id_0> me to your party <extra_id_1> week.".

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
            batch_size: texts decoded together. It changes memory and speed, and no answer but what is sampled.

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
            InputError: as `fill`, and for a language or part.
        """
        if to is not None:
            raise InputError(f"to is {to!r}, and the model fills gaps alone; leave it out")
        return self.encode(text)

    def encode_target(self, text: str) -> list[int]:
        """The token ids of a text with sentinels, such as "<extra_id_0> for inviting <extra_id_1> last"."""
        return self.encode(text)

    @property
    def never(self) -> tuple[int, ...]:
        """The unknown token."""
        unknown = self.task.tokenizer.unknown_id
        return () if unknown is None else (unknown,)

    def encode(self, text: str, number: int = 1) -> list[int]:
        """The token ids of a text with sentinels, as they would be in a corrupted one.

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
                f"text {number} ({text!r:.60}) {fault}; write <extra_id_0>, <extra_id_1> and so on, in this order and each "
                "once, "
                "where something is missing"
            )
        return ids

    @property
    def _bears_spaces(self) -> bool:
        """Whether tokens bear the space before them: those at the ends of a text's parts are then the sentinels'."""
        return self.task.tokenizer.kind not in ("character", "byte_bpe")

    def _encoded(self, part: str) -> list[int]:
        """The token ids of what is between two sentinels."""
        kept = part.strip() if self._bears_spaces else part
        return self.task.tokenizer.encode(kept) if kept else []

    def _decoded(self, span: Sequence[int]) -> str:
        """What was written for a sentinel, as a text."""
        text = self.task.tokenizer.decode(span)
        return text.strip() if self._bears_spaces else text

    def _filled(self, text: str, ids: Sequence[int], found: Hypothesis) -> FilledSpans:
        tokenizer = self.task.tokenizer
        used = sum(sentinel in ids for sentinel in tokenizer.sentinels)
        told = spans_of_target(found.tokens, tokenizer.sentinels)[:used]
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


def prepare_spans(
    data: SpanTextData,
    tokenizer: SentinelTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[SpanCorruptionTask]:
    """Read the texts once for the tokenizer and once for the tokens, and leave both in `folder`.

    Texts may be larger than memory: documents are read, and stretches written, one after another.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: of held-out documents and of the spans that are taken out.
        given, given_validation: documents in memory instead of what `data` names, as `DOCUMENTS` takes them.

    Raises:
        InputError: for data that cannot be read or too little of it, or a tokenizer without sentinels.
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
    """The task of a folder that another program wrote: its tokenizer, and spans as published.

    Arguments:
        config: of the model in it.

    Raises:
        InputError: where there is no tokenizer.json, it and config.json do not belong together, or it has no sentinels.
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
