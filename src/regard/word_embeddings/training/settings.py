"""How word vectors are trained: the method, and the settings it was published with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from regard.errors import InputError
from regard.models.config import check, check_types

Method = Literal["skipgram", "cbow", "fasttext", "glove"]
METHODS: tuple[Method, ...] = get_args(Method)
Weighting = Literal["power", "none", "step"]

PUBLISHED: Any = None
"""Stands for what the method's own program does where nothing is said."""

DEFAULTS: Mapping[Method, Mapping[str, Any]] = MappingProxyType(
    {
        "skipgram": {"window": 5, "epochs": 5, "learning_rate": 0.025, "subsample": 1e-3, "noise_exponent": 0.75},
        "cbow": {"window": 5, "epochs": 5, "learning_rate": 0.05, "subsample": 1e-3, "noise_exponent": 0.75},
        "fasttext": {"window": 5, "epochs": 5, "learning_rate": 0.05, "subsample": 1e-4, "noise_exponent": 0.5},
        "glove": {"window": 10, "epochs": 25, "learning_rate": 0.05, "subsample": 0.0, "noise_exponent": 0.75},
    }
)
"""What `PUBLISHED` is, by method."""

_SOME: tuple[tuple[tuple[Method, ...], tuple[str, ...]], ...] = (
    (("skipgram", "cbow", "fasttext"), ("negative", "subsample", "noise_exponent", "workers")),
    (("fasttext",), ("minimum_ngram", "maximum_ngram", "buckets")),
    (("glove",), ("weighting", "largest_count", "power", "clip", "batch", "vectors", "memory")),
)
ONLY: Mapping[str, tuple[Method, ...]] = MappingProxyType({name: methods for methods, names in _SOME for name in names})
"""Settings that not all methods have, and which do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorSettings:
    """All settings of a training; those that are not given are as the method's own program has them.

    Arguments:
        method: `skipgram` or `cbow` (Mikolov et al. 2013), `fasttext` (Bojanowski et al. 2017) or `glove` (Pennington et al.
            2014).
        width: numbers in a vector.
        window: words on each side; 5, of GloVe 10. The first three draw it anew from 1 to `window` at each word; GloVe divides by
            the distance.
        minimum_count: words seen less often have no vector.
        epochs: passes over the text, 5; of GloVe over the counts, 25.
        learning_rate: at the beginning; 0.05, of skip-gram 0.025. It falls to nothing, and is AdaGrad's own in GloVe.
        seed: decides all that is drawn.
        workers: threads, of all but GloVe. With one the same seed gives the same vectors; with more nobody's order is fixed.
        negative: words drawn against each true one; not of GloVe.
        subsample: how much of common words is left out; 0.001, of fastText 0.0001, 0 keeps all, and not of GloVe. A word of the
            share f of the text is kept with the probability sqrt(t / f) + t / f.
        noise_exponent: words are drawn against the true one by their count to this power.
        minimum_ngram, maximum_ngram: letters in the parts of a word, of fastText, `<` and `>` at its ends included.
        buckets: rows that the parts of words share, of fastText.
        weighting: f of GloVe. `power`: (x / largest_count)^power, 1 from there on; `none`: 1; `step`: 1 from `largest_count` on,
            below 0.
        largest_count: of GloVe; from this count on all counts weigh the same. Small texts want 10.
        power: of the weighting of GloVe.
        clip: no part of a gradient of GloVe is larger.
        batch: counts in an update of GloVe; few counts are cut into a hundred batches.
        vectors: which GloVe gives, the `sum` of a word's two or that of the `word` alone.
        memory: MiB that the counting of GloVe may take beside the vocabulary; what is more goes to the disk.

    Raises:
        InputError: naming the setting.

    >>> VectorSettings(method="cbow").learning_rate, VectorSettings(method="glove").window
    (0.05, 10)
    """

    method: Method = "skipgram"
    width: int = 100
    window: int = PUBLISHED
    minimum_count: int = 5
    epochs: int = PUBLISHED
    learning_rate: float = PUBLISHED
    seed: int = 1
    workers: int = 1
    negative: int = 5
    subsample: float = PUBLISHED
    noise_exponent: float = PUBLISHED
    minimum_ngram: int = 3
    maximum_ngram: int = 6
    buckets: int = 2_000_000
    weighting: Weighting = "power"
    largest_count: float = 100.0
    power: float = 0.75
    clip: float = 100.0
    batch: int = 65_536
    vectors: Literal["sum", "word"] = "sum"
    memory: int = 1024

    def __post_init__(self) -> None:
        if self.method in METHODS:
            for name, value in DEFAULTS[self.method].items():
                if getattr(self, name) is PUBLISHED:
                    object.__setattr__(self, name, value)  # frozen for everybody else
        check_types(self)
        for name in ("width", "window", "minimum_count", "epochs", "workers", "negative", "batch", "buckets"):
            check(1 <= getattr(self, name) <= 1 << 31, name, getattr(self, name), "from 1 to 2^31", "choose another")
        check(self.width <= 100_000, "width", self.width, "at most 100,000", "lower it")
        for name in ("learning_rate", "largest_count", "clip"):
            value = getattr(self, name)
            check(0 < value < float("inf"), name, value, "a number above 0", "raise it")
        for name in ("subsample", "noise_exponent", "power"):
            value = getattr(self, name)
            check(0 <= value < float("inf"), name, value, "0 or a number above it", "raise it")
        check(self.window <= 1000, "window", self.window, "at most 1,000", "lower it")
        check(0 <= self.seed < 2**32, "seed", self.seed, "from 0 to 4,294,967,295", "choose another")
        check(self.memory >= 16, "memory", self.memory, "at least 16 (MiB)", "raise it")
        if not 1 <= self.minimum_ngram <= self.maximum_ngram:
            raise InputError(
                f"minimum_ngram is {self.minimum_ngram} and maximum_ngram {self.maximum_ngram}; the first must be at least 1 "
                "and no larger than the second"
            )

    def to_json(self) -> dict[str, Any]:
        """The settings that the method has."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if self.method in ONLY.get(name, METHODS)
        }


def settings_of(method: Method, **given: Any) -> VectorSettings:
    """Settings of a method from those that are given; None stands for one that is not.

    Raises:
        InputError: for one that the method does not have, or a value that it cannot have.

    >>> settings_of("glove", width=50, negative=None).width
    50
    >>> settings_of("glove", negative=5)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: negative means nothing to glove; leave it out, or choose skipgram, cbow or fasttext
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        others = ONLY.get(name, METHODS)
        if method in METHODS and method not in others:
            *first, last = others
            choices = f"{', '.join(first)} or {last}" if first else last
            raise InputError(f"{name} means nothing to {method}; leave it out, or choose {choices}")
    return VectorSettings(method=method, **given)
