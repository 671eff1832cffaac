"""One vocabulary trained for several languages, one of which has little text: the number of pieces per word in each language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from regard.claims.own_data import SPLITS
from regard.data.running_text import read_texts
from regard.errors import InputError
from regard.models.config import check
from regard.text import Tokenizer
from regard.text.sampling import sampled


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedVocabulary:
    """A vocabulary trained on a sample of the sentences by exponent smoothing, as large as the text (`regard.text.sampling`).

    Measured on the validation text of each language is the mean number of pieces per word, where words are separated by white
    space and each character of an unknown word counts as one piece.

    Arguments:
        path: a folder with training and validation files in each language: `train.en`, `val.en` and so on, plain or gzip.
        languages: the languages, which are the extensions of the files.
        cut: the language whose training text is reduced.
        share: the share of this language's training texts to keep, above 0 and at most 1; the seed samples them.
        exponent: the exponent S; 1 keeps the languages' shares, 0 makes them equal.
        kind: the kind of tokenizer.
        size: the size of the vocabulary.

    Raises:
        InputError: if `cut` is not one of the languages, or `share` is out of range.
    """

    precision: ClassVar[str] = "no model is trained"
    path: str | None = None
    languages: tuple[str, ...] = ("en", "de", "fr")
    cut: str = "fr"
    share: float = 0.05
    exponent: float = 1.0
    kind: str = "bert"
    size: int = 8_000

    def __post_init__(self) -> None:
        check(self.cut in self.languages, "experiment.cut", self.cut, "one of its languages", "name another")
        check(0 < self.share <= 1, "experiment.share", self.share, "above 0 and at most 1", "0.05 is a twentieth")

    @property
    def measures(self) -> tuple[str, ...]:
        """The number of pieces per word in each language."""
        return tuple(f"pieces per word, {language}" for language in self.languages)

    def run(self, seed: int) -> dict[str, float]:
        """Train the tokenizer, and count the pieces.

        Raises:
            InputError: for a missing or unreadable file.
        """
        if self.path is None:
            raise InputError("experiment.path is missing; name a folder with train.en, val.en and so on")
        train = {language: self._file("train", language) for language in self.languages}
        held_out = {language: self._file("validation", language) for language in self.languages}
        texts = {language: _reader(file) for language, file in train.items()}
        texts[self.cut] = _cut(train[self.cut], self.share, seed)
        sample = sampled(texts, exponent=self.exponent, seed=seed)
        tokenizer = Tokenizer.train((text for _, text in sample), kind=self.kind, size=self.size)
        counted = (pieces_per_word(tokenizer, list(read_texts(held_out[language]))) for language in self.languages)
        return dict(zip(self.measures, counted, strict=True))

    def _file(self, split: str, language: str) -> Path:
        folder = Path(self.path or "")
        if not folder.is_dir():
            raise InputError(f"{folder}: is no folder; give one with train.{language}, val.{language} and so on")
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
        fitting = (
            name
            for start in SPLITS[split]
            for name in names
            if name.startswith(start) and name.removesuffix(".gz").endswith(f".{language}")
        )
        found = next(fitting, None)
        if found is None:
            starts = " or ".join(f"{start}.{language}" for start in SPLITS[split])
            raise InputError(f"{folder}: holds no {starts} (or the same with .gz); give a folder with every language")
        return folder / found


def pieces_per_word(tokenizer: Tokenizer, texts: list[str]) -> float:
    """The mean number of pieces per word (separated by white space); an unknown piece counts as its number of characters.

    >>> tokenizer = Tokenizer.from_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "dog", "##s"])
    >>> pieces_per_word(tokenizer, ["dogs dog", "cat"])
    2.0
    """
    words = sum(len(text.split()) for text in texts)
    if words == 0:
        raise InputError("there are no words to count pieces of; give text")
    unknown = tokenizer.unknown_id
    pieces = sum(
        end - start if index == unknown else 1
        for ids, spans in tokenizer.encode_batch_with_spans(texts)
        for index, (start, end) in zip(ids, spans, strict=True)
    )
    return pieces / words


def _reader(file: Path) -> Callable[[], Iterable[str]]:
    return lambda: read_texts(file)


def _cut(file: Path, share: float, seed: int) -> Callable[[], Iterable[str]]:
    """A function that reads a random share of a file's texts, in their order."""
    count = sum(1 for _ in read_texts(file))
    generator = np.random.Generator(np.random.Philox(key=[seed, 0x5A4E]))
    kept = frozenset(generator.choice(count, size=max(1, round(share * count)), replace=False).tolist())

    def texts() -> Iterator[str]:
        return (text for number, text in enumerate(read_texts(file)) if number in kept)

    return texts
