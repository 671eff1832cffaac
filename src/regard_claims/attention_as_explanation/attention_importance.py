"""The rank correlation of attention weights with gradients, and with leave-one-out effects."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.labelled import read_labelled
from regard.errors import InputError
from regard.inspection import look
from regard.inspection.analysis import ClassProbability, GradientTimesInput, attribute_scored
from regard.inspection.editing import SetWeights, change
from regard.tasks.classification import Classifier
from regard.tasks.encoders import Joined
from regard.tasks.loading import load
from regard_claims.shared import accuracy, check_counts, check_examples, learning, trained

Labelled = tuple[str, str]
Floats = NDArray[np.float64]

WORDS, SENTENCES = "words.attention", "sentences.attention"

SIGNED, PLAIN, STRENGTHS = 40, 60, 4
"""The number of words of each sign, the number of neutral words, and the largest strength of a signed word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionImportance:
    """The attention weights of a recurrent classifier against two other measures of word importance.

    After Jain and Wallace (2019, section 4.1).
    With a_t the attention weight of the word at position t of a test text, and y the class probabilities:

        g_t = | x_t dy / dx_t |, a held fixed                  gradient times input of the predicted class's log-probability
        l_t = 1/2 sum_c | y_c(x without x_t) - y_c(x) |        leave-one-out

    Measured are Kendall's tau-b of a with g, of a with l, and of g with l, each the mean over texts; the accuracy in per cent;
    and the mean total variation distance of y after the weights of a text are randomly permuted among its words (section 4.2.1).

    Without `path`, texts of 10 to 20 parts are sampled. A signed word counts for one of two classes with a strength of 1 to 4,
    the word `not` before it reverses its sign, and the sum of the signed strengths determines the class. The classifier is a
    hierarchical attention network (Yang et al. 2016), and a sampled text is one sentence. In a text with several sentences the
    weight of a word is its weight in the sentence times the sentence's weight.

    Arguments:
        path: a file of labelled texts, a tenth of which is the test set. None: sampled texts.
        gathering: `attention`, or `average`, which gives equal weights; then only the accuracy is measured.
        width: the width of each direction of the recurrent network, of the word embeddings and of the context vector.
        size: the number of sampled training texts.
        test_size: the largest number of test texts.
        steps: the number of updates.
        batch: the approximate number of texts in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    gathering: Literal["attention", "average"] = "attention"
    width: int = 32
    size: int = 6_000
    test_size: int = 200
    steps: int = 500
    batch: int = 32
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_counts(self, "width", "test_size", "steps", "batch")
        check_examples(self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The accuracy in per cent, three values of tau, and a total variation distance."""
        taus = ("attention and gradient", "attention and leaving out", "gradient and leaving out")
        return ("accuracy", *taus, "change by exchange")

    def run(self, seed: int) -> dict[str, float]:
        """Train the classifier, and measure it on the test texts.

        Raises:
            InputError: for a file with fewer than 300 labelled texts.
        """
        learned, test = self._texts(seed)
        sizes = dict.fromkeys(("embedding_width", "hidden_width", "attention_width"), self.width)
        longest = min(100, max(len(text.split()) for text, _ in learned) + 10)
        with trained(
            "classification",
            {"name": "han", "gathering": self.gathering, **sizes},
            learned,
            seed=seed,
            data={"maximum_length": longest},
            training=learning(self, self.batch * longest),
        ) as folder:
            model = load(folder, task="classification")
        predicted = model.classify_batch([text for text, _ in test])
        right = accuracy(predicted, [label for _, label in test])
        found = [float("nan")] * 4
        if self.gathering == "attention":
            rng = np.random.Generator(np.random.Philox(key=[seed, 1]))
            rows = [of_a_text(model, text, rng) for text, _ in test]
            found = [float(np.nanmean(column)) for column in zip(*rows, strict=True)]
        return dict(zip(self.measures, [right, *found], strict=True))

    def _texts(self, seed: int) -> tuple[list[Labelled], list[Labelled]]:
        if self.path is None:
            return signed_texts(self.size, 2 * seed), signed_texts(self.test_size, 2 * seed + 1)
        texts = [(each.text, str(each.label)) for each in read_labelled(self.path) if each.label is not None]
        if len(texts) < 300:
            raise InputError(f"{self.path}: has {len(texts)} labelled texts, which are too few; give at least 300")
        Random(seed).shuffle(texts)
        held_out = min(self.test_size, len(texts) // 10)
        return texts[held_out:], texts[:held_out]


def of_a_text(model: Classifier, text: str, rng: np.random.Generator) -> tuple[float, ...]:
    """The three values of tau for a text, in the order of `AttentionImportance`, and the distance after permuting the weights.

    All four are NaN for a text with fewer than two weighted words.
    """
    with look(model) as seen:
        model.classify(text)
    words, sentences = seen.weights(WORDS), seen.weights(SENTENCES)
    scored = ClassProbability(text=text).of(model)
    with change(model, SetWeights(address=WORDS, to=words), SetWeights(address=SENTENCES, to=sentences)):
        (read,) = attribute_scored(scored, method=GradientTimesInput()).read
    ids = list(scored.read[0].ids)
    weights = (sentences[0, 0] @ words[0, 0])[0].double().numpy()
    places = np.flatnonzero(weights)  # the special tokens have the weight 0
    if len(places) < 2:
        return (float("nan"),) * 4
    shorter = [Joined(ids[:place] + ids[place + 1 :]) for place in places.tolist()]
    whole, *others = model.probabilities([Joined(ids), *shorter]).double().numpy()
    gradient = np.abs(read.scores.astype(np.float64))[places]
    left_out = np.array([distance(whole, other) for other in others])
    exchanged = words.clone()
    for row in exchanged[0, 0]:  # permute within each sentence
        own = row.nonzero().flatten()
        row[own] = row[own][torch.from_numpy(rng.permutation(len(own)))]
    with change(model, SetWeights(address=WORDS, to=exchanged)):
        (other,) = model.probabilities([Joined(ids)]).double().numpy()
    return (
        kendall(weights[places], gradient),
        kendall(weights[places], left_out),
        kendall(gradient, left_out),
        distance(whole, other),
    )


def kendall(one: Floats, other: Floats) -> float:
    """Kendall's tau-b; NaN if all numbers in one of the arrays are equal.

    >>> round(kendall(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])), 4)  # one of six pairs is discordant
    0.6667
    """
    signs, others = (np.sign(each[:, None] - each[None, :]) for each in (one, other))
    pairs = np.sqrt((signs**2).sum() * (others**2).sum())
    return float((signs * others).sum() / pairs) if pairs else float("nan")


def distance(one: Floats, other: Floats) -> float:
    """The total variation distance: half the sum of absolute differences."""
    return float(np.abs(one - other).sum() / 2)


def signed_texts(size: int, seed: int) -> list[Labelled]:
    """Sample texts with their classes, `good` or `bad`, as `AttentionImportance` describes; texts with the sum 0 are rejected."""
    draw = Random(seed)
    found: list[Labelled] = []
    while len(found) < size:
        words: list[str] = []
        total = 0
        for _ in range(draw.randint(10, 20)):
            if draw.random() < 0.5:
                words.append(f"plain{draw.randrange(PLAIN)}")
                continue
            number = draw.randrange(2 * SIGNED)
            sign = 1 if number < SIGNED else -1
            if draw.random() < 0.2:
                words.append("not")
                sign = -sign
            words.append(f"signed{number}")
            total += sign * (1 + number % STRENGTHS)
        if total:
            found.append((" ".join(words), "good" if total > 0 else "bad"))
    return found
