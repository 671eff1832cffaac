"""What a language model learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.music import Writing
from regard.data.running_text import Unit
from regard.data.sequences import Maps, Repeats
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.language_modelling.music_data import MotifsData, MusicData

Place = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MapsData:
    """Builtin data: texts of pairs (x, f(x)), the map f drawn anew for each text, for the tokenizer kind `word`.

    Arguments:
        symbols: how many different x there are, and as many images.
        pairs: in each text. With its end a text has 2 * pairs + 1 tokens; with that as `data.length` a stretch is one text.
        size, validation_size: how many texts to draw; no map is in both.

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
        size, validation_size: how many texts to draw.

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
        builtin: `python_docs`, the reference text that comes with Python, instead of files.
        maps: builtin texts of pairs of one map each, to learn from in context, instead of files.
        repeats: builtin texts that say a row of symbols twice, instead of files.
        motifs: builtin melodies of motifs that come back, instead of files.
        music: how the files are read as music; null where they are texts.
        unit: what one document is: a `line`, or a `paragraph` up to the next empty line.
        length: tokens of one stretch.
        tokens: of the training stream, from its beginning, to learn from; all where null.
        document_masks: whether a token sees its own document alone, from position 0 on, where several stand in a stretch; else
            those before are seen too, as by GPT.

    Raises:
        InputError: for files beside builtin data, or a number out of range.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.05
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
        share = self.validation_share
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", "0.05 is usual")
        check(self.length >= 1, "data.length", self.length, "at least 1", "128 to 1024 is usual")
        enough = self.tokens is None or self.tokens >= self.length
        check(enough, "data.tokens", self.tokens, f"at least data.length, {self.length}", "raise it, or leave it out")

    def _check_alone(self, name: str, *others: str) -> None:
        """Refuse a part beside others that say the same in another way."""
        for other in others if getattr(self, name) is not None else ():
            if getattr(self, other) is not None:
                raise InputError(f"data.{other} is given beside data.{name}; choose one of the two (the other is null)")

    @property
    def writing(self) -> Writing | None:
        """How music becomes words; None where the data is texts."""
        part = self.motifs if self.music is None else self.music
        return None if part is None else part.writing
