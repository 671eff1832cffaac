"""Words in a list, the commonest first: what a language model of whole words tells."""

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
"""What is first in every list, as in that of ELMo's authors: what begins and ends a text, and what is not listed."""


@dataclass(frozen=True, slots=True)
class WordList:
    """Words and their numbers.

    Arguments:
        words: `SPECIAL`, then all others, the commonest first.

    Raises:
        InputError: for a list that begins otherwise, or has a word twice.

    >>> words = WordList.counted([["the", "dog"], ["the", "end"]], size=5)
    >>> words.words, words.numbers(["the", "cat"])
    (('<S>', '</S>', '<UNK>', 'the', 'dog'), [3, 2])
    """

    words: tuple[str, ...]
    places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words[: len(SPECIAL)] != SPECIAL:
            raise InputError(f"a list of words begins with {', '.join(SPECIAL)}, and this one with {self.words[:3]}")
        places = {word: number for number, word in enumerate(self.words)}
        if len(places) < len(self.words):
            twice = next(word for number, word in enumerate(self.words) if places[word] != number)
            raise InputError(f"the word {twice!r} is twice in the list; remove one")
        object.__setattr__(self, "places", places)

    @classmethod
    def counted(cls, texts: Iterable[Sequence[str]], *, size: int) -> WordList:
        """The commonest words of some texts; of words as common as each other the one that is met first.

        Arguments:
            texts: the words of each.
            size: the longest the list may be, the special ones included.

        Raises:
            InputError: for a size that holds no word, and where there is none.
        """
        if size <= len(SPECIAL):
            raise InputError(
                f"a list of {size} words has room for none besides {', '.join(SPECIAL)}; give {len(SPECIAL) + 1} or more"
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
        """The list in a file, or in a folder's words.txt: a word in each line.

        Raises:
            InputError: for a file that is missing or holds no such list.
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
        """The number of each word; of one that is not listed that of `<UNK>`."""
        return [self.places.get(word, SPECIAL.index(UNKNOWN)) for word in words]

    def __len__(self) -> int:
        return len(self.words)
