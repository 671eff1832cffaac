"""Synthetic sequences sampled with a seed: sequence problems, maps to learn in context, repeated texts, bits to copy, melodies.

Texts are symbols separated by spaces, so that a tokenizer of kind `word` reads each as one token. Nothing is downloaded or
stored: example i is computed when it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import ClassVar, Literal, NamedTuple, get_args

from regard.data.generated import ATTEMPTS, Generated, below, hashed, numbers, split_of
from regard.errors import InputError, nearest
from regard.text.events import note_name

__all__ = ["KINDS", "BitCopies", "Kind", "Maps", "Motifs", "Repeats", "SequenceExample", "Sequences", "dictionary"]

Kind = Literal["copy", "reversal", "sorting", "dictionary", "reversed_dictionary", "recall", "association"]
KINDS: tuple[str, ...] = get_args(Kind)

_TENTHS = {"train": 8, "validation": 1, "test": 1}


class SequenceExample(NamedTuple):
    """A problem (source) and its answer (target), as texts."""

    source: str
    target: str


class Sequences(Generated[SequenceExample]):
    """`size` random problems of one split; example i is a pure function of the problem, seed, split and i.

    | kind | source | target |
    |---|---|---|
    | `copy` | `s3 s1 s2` | `s3 s1 s2` |
    | `reversal` | `s3 s1 s2` | `s2 s1 s3` |
    | `sorting` | `s3 s1 s2` | `s1 s2 s3`, by number |
    | `dictionary` | `s3 s1 s2` | the translation `t...` of each symbol by a fixed dictionary, in order |
    | `reversed_dictionary` | `s3 s1 s2` | the same translations in reverse order |
    | `recall` | `s3 s1 s2` | `s3`: the first symbol |
    | `association` | `k2 v5 k7 v1 k2` | `v5`: the value after the key that is repeated at the end |

    A hash of its text assigns each source to a split: 80% to "train", 10% each to "validation" and "test". No source is in two
    splits, for any seeds, sizes and lengths. Sources are sampled independently, so a split may contain a few duplicates.

    Arguments:
        split: "train", "validation" or "test".
        kind: the problem; see the table.
        symbols: the number of different symbols; for `association` the number of keys, and of values.
        shortest, longest: the number of symbols of a source is sampled uniformly from shortest to longest, inclusive. For
            `recall` it counts the symbols after the first; for `association` the pairs, whose keys are all different.
        size: number of examples. They are generated when read, so a large number uses no memory.
        seed: another seed gives other examples.

    Raises:
        InputError: for an unknown split or kind, numbers out of range, or fewer different sources in the split than `size`.

    >>> problems = Sequences("train", kind="reversal", symbols=9, shortest=3, longest=5, size=1000)
    >>> source, target = problems[4]
    >>> target.split() == source.split()[::-1], problems[4] == Sequences(
    ...     "train", kind="reversal", symbols=9, shortest=3, longest=5, size=5)[4]
    (True, True)
    """

    called: ClassVar[str] = "sequences"

    def __init__(
        self,
        split: str = "train",
        *,
        kind: str = "reversal",
        symbols: int = 40,
        shortest: int = 12,
        longest: int = 12,
        size: int = 20_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if kind not in KINDS:
            raise InputError(f"sequences: no kind {kind!r}; {nearest(kind, KINDS)}")
        if symbols < 2:
            raise InputError(f"sequences: symbols is {symbols}; give at least 2")
        if not 1 <= shortest <= longest:
            raise InputError(
                f"sequences: lengths from {shortest} to {longest} cannot be sampled; give 1 <= shortest <= longest"
            )
        if kind == "association" and longest > symbols:
            raise InputError(
                f"sequences: {longest} pairs need as many different keys, and symbols is {symbols}; "
                "raise symbols or lower longest"
            )
        self.kind = kind
        self.symbols = symbols
        self.shortest = shortest
        self.longest = longest
        # The number of sources in the split is estimated by its share, without generating all sources.
        wanted = max(1, size)
        there = _sources(kind, symbols, shortest, longest, enough=10 * wanted) * _TENTHS[split] // 10
        if there < wanted:
            raise InputError(
                f"sequences: there are only about {there} different sources of kind {kind!r} in the split {split!r}, and "
                f"{size} are needed; raise symbols or longest, or lower the size"
            )

    def sample(self, rng: Random) -> SequenceExample:
        """One random example of the split.

        Raises:
            InputError: if there are so few sources that none was found in this split.
        """
        for _ in range(ATTEMPTS):
            source, target = self._sample_any(rng)
            text = " ".join(source)
            if split_of(f"regard sequences {text}") == self.split:
                return SequenceExample(text, " ".join(target))
        raise InputError(
            f"sequences: no source of kind {self.kind!r} was found in the split {self.split!r}; "
            "there are too few, so raise symbols or longest"
        )

    def alphabet(self) -> SequenceExample:
        """All symbols that can occur in sources, and all that can occur in targets, each once.

        >>> Sequences(kind="dictionary", symbols=3, longest=12).alphabet()
        SequenceExample(source='s1 s2 s3', target='t1 t2 t3')
        """
        numbers = range(1, self.symbols + 1)
        if self.kind == "association":
            values = " ".join(f"v{n}" for n in numbers)
            return SequenceExample(" ".join(f"k{n}" for n in numbers) + " " + values, values)
        own = " ".join(f"s{n}" for n in numbers)
        return SequenceExample(own, own.replace("s", "t") if "dictionary" in self.kind else own)

    def _sample_any(self, rng: Random) -> tuple[list[str], list[str]]:
        """The symbols of a random source of any split, and of its target."""
        length = self.shortest + below(rng, self.longest - self.shortest + 1)
        if self.kind == "association":
            return self._association(rng, length)
        sampled = numbers(rng, self.symbols, length + (self.kind == "recall"))
        source = [f"s{n}" for n in sampled]
        match self.kind:
            case "reversal":
                return source, source[::-1]
            case "sorting":
                return source, [f"s{n}" for n in sorted(sampled)]
            case "dictionary":
                return source, _looked_up(sampled, self.symbols)
            case "reversed_dictionary":
                return source, _looked_up(sampled, self.symbols)[::-1]
            case "recall":
                return source, source[:1]
            case _:
                return source, source

    def _association(self, rng: Random, length: int) -> tuple[list[str], list[str]]:
        keys = _shuffled(range(1, self.symbols + 1), rng, length)
        values = numbers(rng, self.symbols, length)
        asked = below(rng, length)
        pairs = itertools.chain.from_iterable((f"k{key}", f"v{value}") for key, value in zip(keys, values, strict=True))
        return [*pairs, f"k{keys[asked]}"], [f"v{values[asked]}"]


@lru_cache(maxsize=16)
def dictionary(symbols: int) -> tuple[int, ...]:
    """The dictionary of the problem `dictionary`: entry n - 1 is the number of the translation of symbol n.

    It depends on `symbols` only, not on seed and split.

    >>> sorted(dictionary(5)) == [1, 2, 3, 4, 5], dictionary(5) == dictionary(5)
    (True, True)
    """
    return tuple(_shuffled(range(1, symbols + 1), Random(hashed(f"regard dictionary {symbols}")), symbols))


def _looked_up(source: Sequence[int], symbols: int) -> list[str]:
    words = dictionary(symbols)
    return [f"t{words[n - 1]}" for n in source]


def _shuffled(numbers: Sequence[int], rng: Random, count: int) -> list[int]:
    """`count` of the numbers in random order, without replacement."""
    left = list(numbers)
    for place in range(count):
        other = place + below(rng, len(left) - place)
        left[place], left[other] = left[other], left[place]
    return left[:count]


def _sources(kind: str, symbols: int, shortest: int, longest: int, enough: int) -> int:
    """The number of different sources, at most `enough`."""
    total = 0
    for length in range(shortest, longest + 1):
        if kind == "association":
            choices = itertools.chain([length], ((symbols - place) * symbols for place in range(length)))
        else:
            choices = itertools.repeat(symbols, length + (kind == "recall"))
        product = 1
        for number in choices:
            product *= number
            if total + product >= enough:
                return enough
        total += product
    return total


# Maps to learn in context: each text is a sequence of pairs (x, f(x)) of one map f, which is sampled for this text.


Pair = tuple[str, str]


class Maps(Generated[str]):
    """`size` texts of one split; text i is a pure function of the numbers, seed, split and i.

    A text is `a3 b1 a2 b5 a3 b1 ...`: uniformly sampled symbols x, each followed by its value f(x). Each text has its own map,
    whose values are sampled independently and uniformly. A model can know f(x) only if x occurred before in the text: after k
    pairs at most the share 1 - (1 - 1/n)^(k+1) of the values can be predicted (a guess included), where n is the number of
    symbols.

    A hash assigns each map to a split: 80% to "train", 10% each to "validation" and "test". No map is in two splits, for any
    seeds and sizes.

    Arguments:
        split: "train", "validation" or "test".
        symbols: n, the number of different x, and of different values; there are n^n maps.
        pairs: the number of pairs in each text.
        size: number of texts. They are generated when read, so a large number uses no memory.
        seed: another seed gives other texts.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> texts = Maps("train", symbols=3, pairs=2, size=1000)
    >>> texts[4] == Maps("train", symbols=3, pairs=2, size=5)[4], len(texts[4].split())
    (True, 4)
    """

    called: ClassVar[str] = "maps"
    noun: ClassVar[str] = "text"

    def __init__(
        self, split: str = "train", *, symbols: int = 5, pairs: int = 17, size: int = 20_000, seed: int = 0
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if symbols < 3:
            raise InputError(f"maps: symbols is {symbols}; give at least 3, so that each split has maps")
        if pairs < 1:
            raise InputError(f"maps: pairs is {pairs}; give at least 1")
        self.symbols = symbols
        self.pairs = pairs

    def sample(self, rng: Random) -> str:
        """One random text of the split."""
        return " ".join(" ".join(pair) for pair in self._pairs(rng))

    def pairs_of(self, index: int) -> list[Pair]:
        """The pairs (x, f(x)) of text `index`, in order.

        >>> Maps(symbols=3, pairs=1, size=1).pairs_of(0)[0][0][0]
        'a'
        """
        return self._pairs(self.chance(index))

    def _pairs(self, rng: Random) -> list[Pair]:
        images = numbers(rng, self.symbols, self.symbols)
        while split_of(f"regard maps {' '.join(map(str, images))}") != self.split:
            images = numbers(rng, self.symbols, self.symbols)
        return [(f"a{x}", f"b{images[x - 1]}") for x in numbers(rng, self.symbols, self.pairs)]


# Repeats: texts whose second half repeats the first, so that it can be predicted by looking far back.


class Repeats(Generated[str]):
    """`size` texts of one split, each `0 w 0 w` with a sequence w of symbols (Kitaev et al. 2020, section 4, duplication task).

    The symbols of w are sampled uniformly from s1 to sN. The first w cannot be predicted; the second can be predicted exactly
    by attending len(w) + 1 tokens back. Text i is a pure function of the numbers, seed, split and i.

    Arguments:
        split: "train", "validation" or "test".
        symbols: N, the number of symbols besides 0.
        length: the number of symbols in w.
        size: number of texts. They are generated when read, so a large number uses no memory.
        seed: another seed gives other texts.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> Repeats(symbols=3, length=2, size=1)[0].split()[::3]
    ['0', '0']
    """

    called: ClassVar[str] = "repeats"
    noun: ClassVar[str] = "text"

    def __init__(
        self, split: str = "train", *, symbols: int = 31, length: int = 63, size: int = 20_000, seed: int = 0
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if symbols < 2 or length < 1:
            raise InputError(
                f"repeats: symbols is {symbols} and length {length}; give at least 2 symbols, and a length of 1"
            )
        self.symbols = symbols
        self.length = length

    def sample(self, rng: Random) -> str:
        """One random text."""
        repeated = " ".join(f"s{1 + below(rng, self.symbols)}" for _ in range(self.length))
        return f"0 {repeated} 0 {repeated}"


# Random bits to copy: the first task of neural Turing machines.


WIDEST = 16

Numbers = tuple[int, ...]


class BitCopies(Generated[Numbers]):
    """`size` sequences of one split; sequence i is a pure function of the numbers, seed, split and i.

    A sequence is a tuple of numbers below 2^width, each encoding a vector of `width` bits, lowest bit first. The length is
    sampled uniformly from `shortest` to `longest`, and each bit is 1 with probability 1/2. A hash assigns each sequence to a
    split: 80% to "train", 10% each to "validation" and "test". No sequence is in two splits, for any seeds, sizes and lengths.

    Arguments:
        split: "train", "validation" or "test".
        width: the number of bits of a vector.
        shortest, longest: the smallest and largest number of vectors in a sequence, inclusive.
        size: number of sequences. They are generated when read, so a large number uses no memory.
        seed: another seed gives other sequences.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> copies = BitCopies("train", width=6, shortest=2, longest=4, size=1000)
    >>> copies[4] == BitCopies("train", width=6, shortest=2, longest=4, size=5)[4], max(map(len, copies))
    (True, 4)
    """

    called: ClassVar[str] = "copies"
    noun: ClassVar[str] = "sequence"

    def __init__(
        self,
        split: str = "train",
        *,
        width: int = 8,
        shortest: int = 1,
        longest: int = 20,
        size: int = 20_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if not 1 <= width <= WIDEST:
            raise InputError(f"copies: width is {width}; give 1 to {WIDEST} bits")
        if not 1 <= shortest <= longest:
            raise InputError(
                f"copies: lengths from {shortest} to {longest} cannot be sampled; give 1 <= shortest <= longest"
            )
        self.width = width
        self.shortest = shortest
        self.longest = longest

    def sample(self, rng: Random) -> Numbers:
        """One random sequence of the split.

        Raises:
            InputError: if there are so few sequences that none was found in this split.
        """
        for _ in range(ATTEMPTS):
            length = self.shortest + below(rng, self.longest - self.shortest + 1)
            numbers = tuple(below(rng, 1 << self.width) for _ in range(length))
            if split_of(f"regard copies {' '.join(map(str, numbers))}") == self.split:
                return numbers
        raise InputError(
            f"copies: no sequence of {self.shortest} to {self.longest} vectors of {self.width} bits was found in the split "
            f"{self.split!r}; there are too few, so raise width or longest"
        )


SCALE = (0, 2, 4, 5, 7, 9, 11, 12, 14, 16, 17, 19, 21, 23, 24)
"""The notes of motifs, in semitones above the tonic: a major scale of two octaves."""
LOWEST, HIGHEST = 52, 63
"""The range of the tonic in MIDI pitches, which determines the key."""


class Motifs(Generated[str]):
    """`size` melodies of one split, as event tokens of a grid with one voice.

    Melody i is a pure function of the numbers, seed, split and i.

    A melody is a motif m of a few different notes in a random key, then its answer, which is the motif transposed by t
    semitones, and both repeat to the end:

        m, m + t, m, m + t, ...

    After the motif and the first note of the answer, everything can be predicted: the rest of the answer from the motif, and
    later notes by copying from a fixed distance back. With t = 0 the motif itself repeats.

    A hash of its shape assigns each motif to a split: 80% to "train", 10% each to "validation" and "test". No motif is in two
    splits, in any key.

    Arguments:
        split: "train", "validation" or "test".
        shortest, longest: the smallest and largest number of notes in a motif, 2 to 15.
        farthest: the largest t in either direction, in semitones; 0 repeats the motif itself.
        notes: the number of notes in a melody.
        size: number of melodies. They are generated when read, so a large number uses no memory.
        seed: another seed gives other melodies.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> melody = Motifs(shortest=3, longest=3, notes=9, size=1)[0].split()
    >>> melody[6:] == melody[:3]
    True
    """

    called: ClassVar[str] = "motifs"
    noun: ClassVar[str] = "melody"

    def __init__(
        self,
        split: str = "train",
        *,
        shortest: int = 3,
        longest: int = 9,
        farthest: int = 5,
        notes: int = 255,
        size: int = 5_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if not 2 <= shortest <= longest <= len(SCALE):
            raise InputError(
                f"motifs: shortest is {shortest} and longest {longest}; give 2 <= shortest <= longest <= {len(SCALE)}"
            )
        if not 0 <= farthest <= 24:
            raise InputError(f"motifs: farthest is {farthest}; give 0 to 24 semitones")
        if notes < 1:
            raise InputError(f"motifs: notes is {notes}; give at least 1")
        self.shortest = shortest
        self.longest = longest
        self.farthest = farthest
        self.notes = notes

    def sample(self, rng: Random) -> str:
        """One random melody of the split."""
        motif, moved = self._motif(rng)
        both = [*motif, *(pitch + moved for pitch in motif)]
        return " ".join(note_name(both[place % len(both)]) for place in range(self.notes))

    def motif_of(self, index: int) -> tuple[list[int], int]:
        """The motif of melody `index` as MIDI pitches, and t, the transposition of its answer in semitones.

        >>> len(Motifs(shortest=4, longest=4, size=1).motif_of(0)[0])
        4
        """
        return self._motif(self.chance(index))

    def _motif(self, rng: Random) -> tuple[list[int], int]:
        shape = self._shape(rng)
        while _split_of(shape) != self.split:
            shape = self._shape(rng)
        tonic = _between(rng, LOWEST, HIGHEST)
        return [tonic + semitones for semitones in shape], _between(rng, -self.farthest, self.farthest)

    def _shape(self, rng: Random) -> list[int]:
        """A random motif, in semitones above the tonic."""
        left = list(SCALE)
        count = _between(rng, self.shortest, self.longest)
        return [left.pop(_between(rng, 0, len(left) - 1)) for _ in range(count)]


def _between(rng: Random, low: int, high: int) -> int:
    return low + below(rng, high - low + 1)


def _split_of(shape: Sequence[int]) -> str:
    intervals = [semitones - shape[0] for semitones in shape]  # the same in every key
    return split_of(f"regard motifs {' '.join(map(str, intervals))}")
