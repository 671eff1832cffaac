"""Whether attention at two levels finds the sentence, and the words, that decide the class of a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.data.synthetic_texts import CueDocument, CueDocuments
from regard.inspection import look
from regard.tasks.classification import Classifier
from regard.tasks.loading import load
from regard_claims.shared import accuracy, check_counts, check_examples, learning, trained


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedCue:
    """A hierarchical network on documents with one deciding sentence (`CueDocuments`; Yang et al. 2016, table 2, figures 5, 6).

    Measured on documents of the test split: the accuracy, in per cent; the mean weight of the deciding sentence among all
    sentences; and the mean weights, among the words of that sentence, of the two deciding words together and of the word of
    praise or blame alone. Of averages these weights are what they are, equal; of maxima there are none.

    Arguments:
        gathering: as in `HANConfig`.
        width: of each direction of the recurrent nets, of the vectors of words and of the context vectors.
        size: documents to learn from.
        test_size: documents to measure on.
        sentences, words: of each document, and of each sentence.
        balanced: whether every sentence holds a word of praise and one of blame, so that who counts them learns nothing.
        steps: updates.
        batch: documents in an update, about.
        learning_rate: the peak, which falls to 0 along a cosine.

    Raises:
        InputError: for sizes that are none.
    """

    precision: ClassVar[str] = "float32"
    gathering: Literal["attention", "average", "maximum"] = "attention"
    width: int = 32
    size: int = 8_000
    test_size: int = 1_000
    sentences: int = 8
    words: int = 10
    balanced: bool = False
    steps: int = 1_200
    batch: int = 64
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        check_counts(self, "width", "test_size", "steps", "batch")
        check_examples(self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The accuracy in per cent, and the weights of what decides."""
        return ("accuracy", "sentence weight", "word weight", "opinion weight")

    def run(self, seed: int) -> dict[str, float]:
        """Train the network, and measure it."""
        learnt, test = self._documents("train", self.size, seed), self._documents("test", self.test_size, seed)
        sizes = dict.fromkeys(("embedding_width", "hidden_width", "attention_width"), self.width)
        tokens = self.sentences * (self.words + 1) + 1
        with trained(
            "classification",
            {"name": "han", "gathering": self.gathering, **sizes},
            learnt.labelled(),
            seed=seed,
            data={"maximum_length": max(5, tokens)},
            training=learning(self, self.batch * tokens),
        ) as folder:
            model = load(folder, task="classification")
            told = model.classify_batch([document.text for document in test])
            right = accuracy(told, [document.label for document in test])
            return {"accuracy": right, **self._weights(model, test)}

    def _documents(self, split: str, size: int, seed: int) -> CueDocuments:
        return CueDocuments(
            split, sentences=self.sentences, words=self.words, balanced=self.balanced, size=size, seed=seed
        )

    def _weights(self, model: Classifier, test: Sequence[CueDocument]) -> dict[str, float]:
        if self.gathering == "attention":
            return weights_of_cues(model, test)
        equal = self.gathering == "average"
        shares = (1 / self.sentences, 2 / self.words, 1 / self.words) if equal else (math.nan,) * 3
        return dict(zip(self.measures[1:], shares, strict=True))


def weights_of_cues(model: Classifier, documents: Sequence[CueDocument]) -> dict[str, float]:
    """The mean weights of deciding sentences and words.

    Arguments:
        model: a hierarchical network with attention.
        documents: at least one; every word of theirs is one token.
    """
    sums = [0.0, 0.0, 0.0]
    for document in documents:
        with look(model) as seen:
            model.classify(document.text)
        sentence = seen.weights("sentences.attention")[0, 0, 0]
        # The words of the sentence are the tokens with weights in its row, in their order.
        row = seen.weights("words.attention")[0, 0, document.sentence]
        own = row[_places(document)]
        cue, opinion = own.tolist()
        for place, weight in enumerate((float(sentence[document.sentence]), cue + opinion, opinion)):
            sums[place] += weight
    names = ("sentence weight", "word weight", "opinion weight")
    return {name: total / len(documents) for name, total in zip(names, sums, strict=True)}


def _places(document: CueDocument) -> list[int]:
    """Where the two deciding words stand among the tokens: behind the start token, and one between every two sentences."""
    lengths = [len(sentence.split()) for sentence in document.text.split("\n\n")]
    begin = 1 + sum(length + 1 for length in lengths[: document.sentence])
    return [begin + place for place in document.words]
