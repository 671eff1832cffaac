"""What a language model learns: the `data` section, texts or music, and the task."""

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
    """The files are music: MIDI files, folders of them, or a file of chorales (.json) with its splits.

    Arguments:
        events: `performance`, notes struck and let go with the time between, or `grid`, the pitch of each voice at each step. The
            tokenizer is of the same kind.
        voices: of `grid`, how many.
        steps_per_quarter: of `grid`: 4 for sixteenths. A file of chorales is on its own grid already, and this says which.
        transpose: a piece is learned from in its own key, and in those up to so many semitones lower and higher.

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
        """How pieces become words."""
        grid = Grid(voices=self.voices, steps_per_quarter=self.steps_per_quarter)
        return Writing(events=self.events, grid=grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class MotifsData:
    """Builtin data: melodies of a motif and its answer, again and again, for the tokenizer kind `grid`.

    Arguments:
        shortest, longest: how many notes a motif has.
        farthest: by how many semitones its answer is moved, at most.
        notes: of a melody. With its end it has one token more; a stretch of `data.length` tokens may be a part of it.
        size, validation_size: how many melodies to sample; no motif is in both.

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
        """How its words are read: an eighth note each."""
        return Writing(events="grid", grid=Grid(voices=1, steps_per_quarter=2))


@dataclass(frozen=True, kw_only=True, slots=True)
class MapsData:
    """Builtin data: texts of pairs (x, f(x)), the map f sampled again for each text, for the tokenizer kind `word`.

    Arguments:
        symbols: how many different x there are, and as many images.
        pairs: in each text. With its end a text has 2 * pairs + 1 tokens; with that as `data.length` a stretch is one text.
        size, validation_size: how many texts to sample; no map is in both.

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
        symbols: how many there are besides the 0.
        length: of w. With its end a text has 2 * length + 3 tokens; with that as `data.length` a stretch is one text.
        size, validation_size: how many texts to sample.

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

    The documents are laid end to end, an end token after each, and the stream is cut into stretches of equal length.

    Arguments:
        train: a file of plain text, or several; gzip is recognised. With `music`, MIDI files, folders, or a file of chorales.
        validation: likewise; held out from the training data, document by document, where null.
        validation_share: of the documents, to be held out.
        validation_size: so many instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, instead of files.
        maps: builtin texts of pairs of one map each, to learn from in context, instead of files.
        repeats: builtin texts that say a row of symbols twice, instead of files.
        motifs: builtin melodies of motifs that come back, instead of files.
        music: how the files are read as music; null where they are texts.
        unit: what one document is: a `line`, or a `paragraph` up to the next empty line.
        length: tokens of one stretch.
        tokens: of the training stream, from its beginning, to learn from; all where null.
        document_masks: whether a token sees its own document alone, from position 0 on, where several are in a stretch; else
            those before are seen too, as by GPT.

    Raises:
        InputError: for files next to builtin data, or a number out of range.
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
                raise InputError(f"data.{name} is given beside data.builtin={self.builtin}; choose one of the two")
        self._check_alone("maps", "train", "validation", "builtin")
        self._check_alone("repeats", "train", "validation", "builtin", "maps")
        self._check_alone("motifs", "train", "validation", "builtin", "maps", "repeats", "music")
        self._check_alone("music", "builtin", "maps", "repeats")
        check_amount(self)
        check(self.length >= 1, "data.length", self.length, "at least 1", "128 to 1024 is usual")
        enough = self.tokens is None or self.tokens >= self.length
        check(enough, "data.tokens", self.tokens, f"at least data.length, {self.length}", "raise it, or leave it out")

    def _check_alone(self, name: str, *others: str) -> None:
        """Refuse a part next to others that say the same in another way."""
        for other in others if getattr(self, name) is not None else ():
            if getattr(self, other) is not None:
                raise InputError(f"data.{other} is given beside data.{name}; choose one of the two (the other is null)")

    @property
    def writing(self) -> Writing | None:
        """How music becomes words; None where the data is texts."""
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
"""Of the token stores."""


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        tokens: (B, L), what the model reads.
        labels: (B, L) int64, the token after each.
    """

    tokens: Tokens
    labels: Tensor


def chat_template_of(folder: Path) -> ChatTemplate | None:
    """The chat templates of a folder; Jinja is imported where there are any."""
    if not has_chat_template(folder):
        return None
    from regard.text.chat import ChatTemplate

    return ChatTemplate.of_folder(folder)


@dataclass(frozen=True, slots=True)
class LanguageModellingTask(Task):
    """What turns text into a language model's tensors, and its outputs into a loss.

    A text is read as its tokens with the end token before the first and after the last, so that the model tells of the first
    token and of the end too.

    Arguments:
        tokenizer: for all texts.
        document_masks: whether tokens of a training stretch see their own document alone; nothing to a trained model.
        before_prompts: ids that are before each prompt when the model writes; the end token where None. Models that
            `transformers` wrote have those that their tokenizer.json adds, mostly none.
        generation: the default decoding settings; `WRITING` where None.
        stop: strings that end a text, besides those that are asked for.
        chat: the folder's chat templates; None where it has none.
    """

    name: ClassVar[str] = "language_modelling"

    tokenizer: Tokenizer
    document_masks: bool = False
    before_prompts: tuple[int, ...] | None = None
    generation: GenerationSettings | None = None
    stop: tuple[str, ...] = ()
    chat: ChatTemplate | None = None

    def prompted(self, ids: Sequence[int]) -> list[int]:
        """What the model reads of a prompt: its ids behind `before_prompts`; the end token where that leaves nothing."""
        end = self.tokenizer.end_id
        return [*((end,) if self.before_prompts is None else self.before_prompts), *ids] or [end]

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The one there is."""
        return {"text": self.tokenizer}

    def model_settings(self) -> dict[str, int]:
        """What the vocabulary decides of a model's config."""
        tokenizer = self.tokenizer
        return {"vocabulary": tokenizer.size, "padding_id": tokenizer.padding_id, "end_id": tokenizer.end_id}

    def batch(self, stretches: Sequence[Sequence[int]]) -> TextBatch:
        """Stretches of token ids, two or more each: all but the last are read, all but the first are predicted."""
        padding = self.tokenizer.padding_id
        read = Tokens.pad([ids[:-1] for ids in stretches], padding_id=padding)
        return TextBatch(
            tokens=read.with_documents(self.tokenizer.end_id) if self.document_masks else read,
            labels=Tokens.pad([ids[1:] for ids in stretches], padding_id=padding).ids,
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens read of each stretch, (N, 1)."""
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
        """Tokens and vocabulary in a few words."""
        counts = [int(self.labels(data).sum()) for data in (train, validation)]
        return (
            f"{counts[0]:,} tokens to learn from, {counts[1]:,} to validate on; a vocabulary of {self.tokenizer.size:,}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse stretches that are longer than the model has positions for, and documents that it cannot keep apart.

        Raises:
            InputError: naming the setting.
        """
        if self.document_masks and not getattr(model, "separates_documents", False):
            raise InputError(
                f"data.document_masks: a {type(model).__name__} has no masks to keep documents apart; leave it out"
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
