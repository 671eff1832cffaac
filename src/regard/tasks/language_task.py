"""The `data` section of language modelling, with texts or music, and its task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from regard.data.malformed import MalformedRows, malformed_row, text_fault
from regard.data.music import Writing
from regard.data.notes import Grid
from regard.data.rows import parts_of, sound
from regard.data.running_text import Unit, read_texts
from regard.data.sequences import Maps, Motifs, Repeats
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers import Tokens
from regard.models.config import check
from regard.structure import from_mapping
from regard.tasks.examples import Examples, Place, check_amount
from regard.tasks.losses import projected_cross_entropy
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer
from regard.text.events import Events
from regard.text.files import has_chat_template

if TYPE_CHECKING:
    from regard.text.chat import ChatTemplate


@dataclass(frozen=True, kw_only=True, slots=True)
class MusicData:
    """How files of music are read: MIDI files, folders of them, or a file of chorales (.json) with its splits.

    Arguments:
        events: `performance`, the beginnings and ends of notes with the time between them; or `grid`, the pitch of each voice at
            each step. The tokenizer must be of the same kind.
        voices: the number of voices of `grid`.
        steps_per_quarter: the steps per quarter note of `grid`: 4 for sixteenths. For a file of chorales, which is on a grid
            already, the steps of that grid.
        transpose: each piece is used in its own key and transposed by 1 to this many semitones down and up.

    Raises:
        InputError: for numbers out of range.
    """

    events: Events = "performance"
    voices: int = 4
    steps_per_quarter: int = 4
    transpose: int = 0

    def __post_init__(self) -> None:
        check(1 <= self.voices <= 64, "data.music.voices", self.voices, "1 to 64", "chorales have 4")
        steps = self.steps_per_quarter
        check(1 <= steps <= 96, "data.music.steps_per_quarter", steps, "1 to 96", "4 for sixteenths")
        check(0 <= self.transpose <= 24, "data.music.transpose", self.transpose, "0 to 24", "3 is usual")

    @property
    def writing(self) -> Writing:
        """The encoding of pieces as words."""
        grid = Grid(voices=self.voices, steps_per_quarter=self.steps_per_quarter)
        return Writing(events=self.events, grid=grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class MotifsData:
    """Builtin data: melodies that alternate a motif and its answer, for the tokenizer kind `grid`.

    Arguments:
        shortest, longest: the range of the number of notes of a motif.
        farthest: the maximum transposition of the answer, in semitones.
        notes: the number of notes of a melody, which has an end token too; a stretch of `data.length` tokens can be a part of it.
        size, validation_size: the number of melodies for training and for validation; no motif is in both.

    Raises:
        InputError: for numbers out of range.
    """

    shortest: int = 3
    longest: int = 9
    farthest: int = 5
    notes: int = 255
    size: int = 4_000
    validation_size: int = 100

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.motifs.{name}", value, "above 0", "raise it")
        self.melodies("train", 0, 0)

    def melodies(self, split: str, size: int, seed: int) -> Motifs:
        """The melodies of one split."""
        return Motifs(
            split,
            shortest=self.shortest,
            longest=self.longest,
            farthest=self.farthest,
            notes=self.notes,
            size=size,
            seed=seed,
        )

    @property
    def writing(self) -> Writing:
        """The encoding of words: each is an eighth note."""
        return Writing(events="grid", grid=Grid(voices=1, steps_per_quarter=2))


@dataclass(frozen=True, kw_only=True, slots=True)
class MapsData:
    """Builtin data: texts of pairs (x, f(x)), the map f sampled again for each text, for the tokenizer kind `word`.

    Arguments:
        symbols: the number of different x, and of different f(x).
        pairs: the number of pairs in a text, which has 2 * pairs + 1 tokens; with that as `data.length` a stretch is one text.
        size, validation_size: the number of texts for training and for validation; no map is in both.

    Raises:
        InputError: for numbers out of range.
    """

    symbols: int = 5
    pairs: int = 17
    size: int = 50_000
    validation_size: int = 500

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.maps.{name}", value, "above 0", "raise it")
        self.texts("train", 0, 0)

    def texts(self, split: str, size: int, seed: int) -> Maps:
        """The texts of one split."""
        return Maps(split, symbols=self.symbols, pairs=self.pairs, size=size, seed=seed)


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatsData:
    """Builtin data: texts `0 w 0 w` of random symbols, for the tokenizer kind `word`.

    Arguments:
        symbols: the number of different symbols besides 0.
        length: the length of w. A text has 2 * length + 3 tokens; with that as `data.length` a stretch is one text.
        size, validation_size: the number of texts for training and for validation.

    Raises:
        InputError: for numbers out of range.
    """

    symbols: int = 31
    length: int = 63
    size: int = 50_000
    validation_size: int = 500

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.repeats.{name}", value, "above 0", "raise it")
        self.texts("train", 0, 0)

    def texts(self, split: str, size: int, seed: int) -> Repeats:
        """The texts of one split."""
        return Repeats(split, symbols=self.symbols, length=self.length, size=size, seed=seed)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextData:
    """The `data` section of a recipe.

    The documents are concatenated, with an end token after each, and the stream is cut into stretches of equal length.

    Arguments:
        train: a file of plain text, or several; gzip is recognised. With `music`, MIDI files, folders, or a file of chorales.
        validation: other files of the same kind; if null, documents are held out from the training data.
        validation_share: the share of documents to hold out.
        validation_size: the number of documents to hold out instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, instead of files.
        maps: builtin texts, each with pairs of one map, for learning in context, instead of files.
        repeats: builtin texts that contain a sequence of symbols twice, instead of files.
        motifs: builtin melodies that alternate a motif and its answer, instead of files.
        music: how files of music are read; null if the files are texts.
        unit: what a document is: a `line`, or a `paragraph` up to the next empty line.
        length: the number of tokens of a stretch.
        tokens: the number of tokens of the training stream to use, from its beginning; null for all.
        document_masks: whether a token attends only to its own document, with positions from 0, if a stretch contains several;
            false = it also attends to the documents before, as in GPT.

    Raises:
        InputError: for files and builtin data at once, or a number out of range.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
    validation_size: int | None = None
    builtin: Literal["python_docs"] | None = None
    maps: MapsData | None = None
    repeats: RepeatsData | None = None
    motifs: MotifsData | None = None
    music: MusicData | None = None
    unit: Unit = "line"
    length: int = 128
    tokens: int | None = None
    document_masks: bool = False

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            if self.builtin is not None and getattr(self, name) is not None:
                raise InputError(f"data.{name} and data.builtin={self.builtin} are both given; choose one of the two")
        self._check_alone("maps", "train", "validation", "builtin")
        self._check_alone("repeats", "train", "validation", "builtin", "maps")
        self._check_alone("motifs", "train", "validation", "builtin", "maps", "repeats", "music")
        self._check_alone("music", "builtin", "maps", "repeats")
        check_amount(self)
        check(self.length >= 1, "data.length", self.length, "at least 1", "128 to 1024 is usual")
        enough = self.tokens is None or self.tokens >= self.length
        check(enough, "data.tokens", self.tokens, f"at least data.length, {self.length}", "raise it, or leave it out")

    def _check_alone(self, name: str, *others: str) -> None:
        """Refuse a source of data together with another one."""
        for other in others if getattr(self, name) is not None else ():
            if getattr(self, other) is not None:
                raise InputError(
                    f"data.{other} and data.{name} are both given; choose one of the two (set the other to null)"
                )

    @property
    def writing(self) -> Writing | None:
        """The encoding of music as words; None if the data is text."""
        part = self.motifs if self.music is None else self.music
        return None if part is None else part.writing


def _row(row: Any, called: str, number: int, data: Any) -> str:
    del data
    text = parts_of(row, called, [["text"]], TEXTS.wanted)[0] if isinstance(row, Mapping) else row
    fault = None if text == "" else text_fault("text", text)
    if fault is not None and fault[0] != "empty text":
        sound(malformed_row("texts", number, *fault), TEXTS.wanted)
    return str(text)


def _read(data: TextData, path: str | list[str], malformed: MalformedRows) -> Iterable[str]:
    return read_texts(path, unit=data.unit, malformed=malformed)


TEXTS: Examples[str] = Examples(
    type=None,
    rows="texts",
    wanted='a text, or a mapping with "text"',
    file="file of text",
    formats=", or data.builtin=python_docs, or data.maps={}",
    row=_row,
    read=_read,
    empty=lambda text: not text.strip(),
)


COLUMN = "text"
"""The column of the token stores."""


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        tokens: (B, L), the input of the model.
        labels: (B, L) int64, the next token of each position.
    """

    tokens: Tokens
    labels: Tensor


def chat_template_of(folder: Path) -> ChatTemplate | None:
    """The chat templates of a folder, or None; Jinja is only imported if there are any."""
    if not has_chat_template(folder):
        return None
    from regard.text.chat import ChatTemplate

    return ChatTemplate.of_folder(folder)


@dataclass(frozen=True, slots=True)
class LanguageModellingTask(Task):
    """Turns text into a language model's tensors, and its outputs into a loss.

    A text is read with the end token before its first and after its last token, so that the model also predicts the first token
    and the end.

    Arguments:
        tokenizer: for all texts.
        document_masks: whether tokens of a training stretch attend only to their own document; not used after training.
        before_prompts: ids to add before each prompt in generation; None for the end token. For models from `transformers` they
            are the ids that their tokenizer.json adds, mostly none.
        generation: the default decoding settings; None for `WRITING`.
        stop: strings that always end a text, besides the requested ones.
        chat: the folder's chat templates; None if it has none.
    """

    name: ClassVar[str] = "language_modelling"

    tokenizer: Tokenizer
    document_masks: bool = False
    before_prompts: tuple[int, ...] | None = None
    generation: GenerationSettings | None = None
    stop: tuple[str, ...] = ()
    chat: ChatTemplate | None = None

    def prompted(self, ids: Sequence[int]) -> list[int]:
        """The model's input for a prompt: `before_prompts` and the prompt's ids; the end token if both are empty."""
        end = self.tokenizer.end_id
        return [*((end,) if self.before_prompts is None else self.before_prompts), *ids] or [end]

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of the texts."""
        return {"text": self.tokenizer}

    def model_settings(self) -> dict[str, int]:
        """The settings of a model's config that follow from the vocabulary."""
        tokenizer = self.tokenizer
        return {"vocabulary": tokenizer.size, "padding_id": tokenizer.padding_id, "end_id": tokenizer.end_id}

    def batch(self, stretches: Sequence[Sequence[int]]) -> TextBatch:
        """A batch of stretches of at least two token ids: all but the last are the input, all but the first the labels."""
        padding = self.tokenizer.padding_id
        read = Tokens.pad([ids[:-1] for ids in stretches], padding_id=padding)
        return TextBatch(
            tokens=read.with_documents(self.tokenizer.end_id) if self.document_masks else read,
            labels=Tokens.pad([ids[1:] for ids in stretches], padding_id=padding).ids,
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of input tokens of each stretch, (N, 1)."""
        return self.labels(data)[:, None]

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of tokens to predict of each stretch, (N,)."""
        return data.lengths(COLUMN) - 1

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> TextBatch:
        """The stretches of these rows as a batch."""
        return self.batch([data.sequence(COLUMN, row).tolist() for row in rows])

    def loss(self, model: nn.Module, batch: TextBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens."""
        valid = batch.tokens.valid
        padding = self.tokenizer.padding_id
        never = padding if padding != self.tokenizer.end_id else None
        loss = projected_cross_entropy(batch.labels, valid=valid, smoothing=smoothing, never=never)
        total, correct = model(batch.tokens, reduce=loss)
        return LossSum(total, int(valid.sum()), correct)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of tokens and the size of the vocabulary, as one line."""
        counts = [int(self.labels(data).sum()) for data in (train, validation)]
        return (
            f"{counts[0]:,} tokens to learn from, {counts[1]:,} to validate on; a vocabulary of {self.tokenizer.size:,}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse stretches longer than the model's positions, and `document_masks` for a model without them.

        Raises:
            InputError: naming the setting.
        """
        if self.document_masks and not getattr(model, "separates_documents", False):
            raise InputError(
                f"data.document_masks: a {type(model).__name__} has no masks to separate documents; leave it out"
            )
        limit = model.maximum_length
        longest = max(int(self.labels(data).max(initial=0)) for data in (train, validation))
        if limit is not None and longest > limit:
            raise InputError(
                f"data.length is {longest} where the model has {limit} positions; raise {model.length_setting}, or lower "
                "data.length"
            )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        if self.chat is not None:
            self.chat.save(folder)
        before = {} if self.before_prompts is None else {"before_prompts": list(self.before_prompts)}
        decoding = {} if self.generation is None else {"generation": asdict(self.generation)}
        stop = {"stop": list(self.stop)} if self.stop else {}
        return {"name": self.name, **before, **decoding, **stop}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> LanguageModellingTask:
        """The task that `save` wrote into `folder`."""
        before = values.get("before_prompts")
        decoding = values.get("generation")
        if decoding is not None:
            decoding = from_mapping(GenerationSettings, decoding, f"{folder / 'regard.json'}: task.generation")
        return cls(
            Tokenizer.load(folder),
            before_prompts=None if before is None else tuple(before),
            generation=decoding,
            stop=tuple(values.get("stop", ())),
            chat=chat_template_of(folder),
        )

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        return ['print(model.score("...").perplexity)']
