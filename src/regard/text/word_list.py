"""Lists of words by falling frequency, the output vocabulary of language models on whole words."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import InputError
from regard.files import replace_file
from regard.reading import read_text

FILE_NAME = "words.txt"

START, END, UNKNOWN = "<S>", "</S>", "<UNK>"
SPECIAL = (START, END, UNKNOWN)
"""The first entries of every list, as in ELMo's code: the start and the end of a text, and unknown words."""


@dataclass(frozen=True, slots=True)
class WordList:
    """A vocabulary of whole words.

    Arguments:
        words: `SPECIAL`, then the other words by falling frequency.

    Raises:
        InputError: if the list does not begin with `SPECIAL`, or has a word twice.

    >>> words = WordList.counted([["the", "dog"], ["the", "end"]], size=5)
    >>> words.words, words.numbers(["the", "cat"])
    (('<S>', '</S>', '<UNK>', 'the', 'dog'), [3, 2])
    """

    words: tuple[str, ...]
    places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words[: len(SPECIAL)] != SPECIAL:
            raise InputError(
                f"a list of words must begin with {', '.join(SPECIAL)}, and this one begins with {self.words[:3]}"
            )
        places = {word: number for number, word in enumerate(self.words)}
        if len(places) < len(self.words):
            twice = next(word for number, word in enumerate(self.words) if places[word] != number)
            raise InputError(f"the word {twice!r} is twice in the list; remove one")
        object.__setattr__(self, "places", places)

    @classmethod
    def counted(cls, texts: Iterable[Sequence[str]], *, size: int) -> WordList:
        """The most frequent words of texts; in a tie, words that occur earlier come first.

        Arguments:
            texts: the words of each text.
            size: the largest number of entries, with the special ones.

        Raises:
            InputError: if the size leaves no room for words, or the texts have no words.
        """
        if size <= len(SPECIAL):
            raise InputError(
                f"size is {size}, which leaves no room for words besides {', '.join(SPECIAL)}; give {len(SPECIAL) + 1} or more"
            )
        counts: Counter[str] = Counter()
        for words in texts:
            counts.update(words)
        for word in SPECIAL:
            counts.pop(word, None)
        if not counts:
            raise InputError("there is no word in the texts; give some")
        return cls((*SPECIAL, *(word for word, _ in counts.most_common(size - len(SPECIAL)))))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordList:
        """Load a list from a file, or from words.txt in a folder, with one word per line.

        Raises:
            InputError: if the file is missing, or is not such a list.
        """
        file = Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)
        lines = read_text(file, "give a list of words, or a folder with a words.txt").split("\n")
        try:
            return cls(tuple(lines[:-1] if lines[-1] == "" else lines))
        except InputError as error:
            raise InputError(f"{file}: {error}") from None

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write words.txt into a folder."""
        replace_file(Path(folder) / FILE_NAME, "".join(f"{word}\n" for word in self.words))

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The id of each word; that of `<UNK>` for unknown words."""
        return [self.places.get(word, SPECIAL.index(UNKNOWN)) for word in words]

    def __len__(self) -> int:
        return len(self.words)
