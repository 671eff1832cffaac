"""The common part of tasks whose model reads one or two whole texts: inputs, task, predictor, and folders of other programs.

Inputs of BERT are `[CLS] first [SEP]` and `[CLS] first [SEP] second [SEP]`; of RoBERTa `<s> first </s>` and `<s> first </s></s>
second </s>`; of a fine-tuned decoder `_start_ first _classify_` and `_start_ first _delimiter_ second _classify_` (Radford et al.
2018, figure 1). The tokenizer determines which.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.layouts import format_of
from regard.data.batching import Batches
from regard.data.running_text import split_sentences
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.files import replace_file
from regard.layers import FIXED_OUTPUTS, Encoded, HeadKind, Tokens
from regard.layers.embeddings import check_finite
from regard.models import MODELS
from regard.structure import from_mapping
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.predictor import Predictor
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer, tokenizer_config
from regard.text.bpe import SPELLING_SIZE, merge_files_in

TEXT, SECOND = "text", "second"
"""The columns of a token store: the tokens, special ones included; and the index of the second text's first token, 0 if none."""

PLACES = 1 << 16
"""Greater than any position in a text."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The tokens of one input.

    Arguments:
        ids: the token ids, special tokens included.
        second: the index of the second text's first token; 0 if there is no second text.
        cut: the number of tokens of the texts that were cut off.
    """

    ids: list[int]
    second: int = 0
    cut: int = 0


def join(tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None = None, *, maximum: int) -> Joined:
    """One input from the tokens of one or two texts, truncated to `maximum` tokens.

    The last token of the longer text is removed until both fit, as in the authors' code of BERT (Devlin et al. 2019).

    Arguments:
        maximum: the maximum number of tokens, special ones included.

    >>> from regard.text import Tokenizer
    >>> tokenizer = Tokenizer.train(["a b c"], kind="bert", size=30)
    >>> joined = join(tokenizer, tokenizer.encode("a b c"), tokenizer.encode("c"), maximum=6)
    >>> tokenizer.tokens(joined.ids), joined.second, joined.cut
    (['[CLS]', 'a', 'b', '[SEP]', 'c', '[SEP]'], 4, 1)
    """
    start, separators, end = tokenizer.start_id, tokenizer.separators, tokenizer.end_id
    if second is None:
        kept = list(first[: max(0, maximum - 2)])
        return Joined([start, *kept, end], 0, len(first) - len(kept))
    room = max(0, maximum - 2 - len(separators))
    shorter = min(len(first), len(second))
    if len(first) + len(second) <= room:
        left, right = len(first), len(second)
    elif shorter <= room // 2:
        left = len(first) if len(first) == shorter else room - len(second)
        right = room - left
    else:  # both are longer than half: the first text gets the extra token of an odd number
        left = room - room // 2
        right = room // 2
    ids = [start, *first[:left], *separators, *second[:right], end]
    return Joined(ids, 1 + left + len(separators), len(first) + len(second) - left - right)


@dataclass(frozen=True, slots=True, eq=False)
class EncoderBatch:
    """A batch for one step of training.

    Arguments:
        tokens: (B, L), the inputs.
        segments: (B, L) int64, 0 in the first text, 1 from the second text on.
        labels: the labels of the task; the first axis is the batch.
    """

    tokens: Tokens
    segments: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> EncoderBatch:
        """The same batch on another device."""
        return EncoderBatch(self.tokens.to(device), self.segments.to(device), self.labels.to(device))


def swapped(joined: Joined) -> Joined:
    """The same two texts in the other order.

    >>> swapped(Joined([1, 7, 8, 2, 9, 3], second=4))
    Joined(ids=[1, 9, 2, 7, 8, 3], second=3, cut=0)
    """
    start, separator, end = joined.ids[0], joined.ids[joined.second - 1], joined.ids[-1]
    first, second = joined.ids[1 : joined.second - 1], joined.ids[joined.second : -1]
    return Joined([start, *second, separator, *first, end], len(second) + 2, joined.cut)


def padded(inputs: Sequence[Joined], *, padding_id: int, readings: int = 1) -> tuple[Tokens, Tensor]:
    """A batch of inputs: tokens (B, L) and segments (B, L) int64, which are 1 from the second text on.

    Arguments:
        readings: 2 to read pairs in both orders, one after the other: (2 B, L).
    """
    if readings == 2:
        inputs = [reading for joined in inputs for reading in (joined, swapped(joined))]
    tokens = Tokens.pad([joined.ids for joined in inputs], padding_id=padding_id)
    starts = np.array([joined.second or PLACES for joined in inputs], dtype=np.int64)
    segments = np.arange(tokens.ids.shape[1]) >= starts[:, None]
    return tokens, torch.from_numpy(segments.astype(np.int64))


def columns_of(tokenizer: Tokenizer) -> dict[str, int]:
    """The columns of every store of an encoder's inputs; a task adds columns for its labels."""
    return {TEXT: tokenizer.size, SECOND: PLACES}


def read_inputs(data: TokenStore, rows: Sequence[int]) -> list[Joined]:
    """The inputs of some rows of a store."""
    return [Joined(data.sequence(TEXT, row).tolist(), int(data.sequence(SECOND, row)[0])) for row in rows]


def bits_of(number: float) -> int:
    """A number as an integer for a store: the bits of a float32."""
    return int(np.float32(number).view(np.uint32))


def stored_numbers(data: TokenStore, column: str, row: int) -> list[float]:
    """The numbers of a row of a store that were written with `bits_of`."""
    return data.sequence(column, row).astype(np.uint32).view(np.float32).tolist()


# Models that distinguish sentences read a separator token between two of them.


BREAKS = re.compile(r"\n\s*\n|<br\s*/?>", re.IGNORECASE)


def tokens_of(tokenizer: Tokenizer, texts: Sequence[str], *, sentences: bool) -> list[list[int]]:
    """The tokens of texts, without start and end tokens.

    Arguments:
        sentences: whether to put the tokenizer's separator between the sentences of a text, which `split_sentences` finds;
            sentences also end at an empty line and at HTML's `<br />`.

    >>> tokenizer = Tokenizer.train(["it rains . it pours ."], kind="word", size=60)
    >>> (ids,) = tokens_of(tokenizer, ["it rains . It rains ."], sentences=True)
    >>> tokenizer.tokens(ids)
    ['▁it', '▁rains', '▁.', '</s>', '<unk>', '▁rains', '▁.']
    """
    if not sentences:
        return tokenizer.encode_batch(texts)
    parted = [sentences_of(text) for text in texts]
    encoded = iter(tokenizer.encode_batch([sentence for text in parted for sentence in text]))
    return [_joined([next(encoded) for _ in text], tokenizer.separator_id) for text in parted]


def sentences_of(text: str) -> list[str]:
    r"""The sentences of a document, paragraph by paragraph.

    >>> sentences_of("It rains. It pours.\n\nThe end<br /><br />or not")
    ['It rains.', 'It pours.', 'The end', 'or not']
    """
    return [sentence for paragraph in BREAKS.split(text) for sentence in split_sentences(paragraph)]


def _joined(sentences: Sequence[Sequence[int]], separator: int) -> list[int]:
    ids: list[int] = []
    for sentence in sentences:
        if ids and sentence:
            ids.append(separator)
        ids += sentence
    return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderTask(Task):
    """Turns one or two texts into an encoder's tensors, and its outputs into a loss.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the maximum number of tokens of one input, special ones included; longer inputs are truncated, or read in
            windows.
    """

    unit: ClassVar[str] = "examples"
    head: ClassVar[HeadKind]
    """The head of the model that the task needs."""

    tokenizer: Tokenizer
    maximum_length: int = 128

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of the texts."""
        return {"text": self.tokenizer}

    @property
    def outputs(self) -> int:
        """The number of outputs of the head."""
        return FIXED_OUTPUTS[self.head]

    def model_settings(self) -> dict[str, Any]:
        """The settings of a model's config that follow from the task."""
        return {
            "vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "head": self.head,
            "outputs": self.outputs,
        }

    @property
    def texts(self) -> int:
        """The number of texts in one input."""
        return 1

    def settings_of_some(self) -> dict[str, Any]:
        """Settings of models that compute a vector of each text: the number of texts, and the tokens around and between them."""
        tokenizer = self.tokenizer
        around = {tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id}
        return {"texts": self.texts, "boundary_ids": tuple(sorted(around))}

    @property
    def readings(self) -> int:
        """How often an input is read: 2 for pairs that are read in both orders, else 1."""
        return 1

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of tokens of each input in all of its readings, (N, 1)."""
        return self.readings * data.lengths(TEXT)[:, None]

    def labels(self, data: TokenStore) -> np.ndarray:
        """One label for each input, (N,)."""
        return np.ones(len(data), dtype=np.int64)

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse a `maximum_length` above the number of the model's positions.

        Raises:
            InputError: naming the settings.
        """
        del train, validation
        limit = model.maximum_length
        if self.maximum_length > limit:
            raise InputError(
                f"data.maximum_length is {self.maximum_length}, and the model has {limit} positions; lower it, or raise "
                f"{model.length_setting}"
            )

    def settings(self) -> dict[str, Any]:
        """The values for regard.json, which prediction needs besides the tokenizer: by default all fields."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "tokenizer"}

    @property
    @abstractmethod
    def use(self) -> tuple[str, ...]:
        """Lines of Python that show how to use a model of this task, for the model card."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        return {"name": self.name, **self.settings()}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> Self:
        """The task that `save` wrote into `folder`."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, {"tokenizer": Tokenizer.load(folder), **settings}, f"{folder / 'regard.json'}: task")

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs would tokenize texts differently, as half a sentence; empty if they would not."""
        del config
        return obstacle(self.tokenizer)

    def hf_token_ids(self, config: Any) -> dict[str, int]:
        """The ids of special tokens that config.json repeats in the layout of the model."""
        layout, _ = format_of(config)
        return (
            {} if layout is None else {name: getattr(self.tokenizer, ours) for name, ours in layout.token_ids.items()}
        )

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json."""
        del opens
        write_tokenizer_config(folder, self.tokenizer, maximum=config.maximum_positions)


def encoded_by(model: nn.Module, tokens: Tokens, segments: Tensor, **settings: Any) -> Any:
    """The output of a model for a batch of whole texts, an `Encoded`; which fields are set depends on its head.

    Raises:
        InputError: for a model of the user's own that returns a tensor instead of an `Encoded`.
    """
    found = model(tokens, segments, **settings)
    if isinstance(found, Tensor):
        raise InputError(
            f"the forward of {type(model).__name__} returns a tensor; return a regard.layers.Encoded with the "
            "logits in it: Encoded(hidden, pooled, logits=logits)"
        )
    return found


NEXT_TOKEN = "next_token"
"""The name of the auxiliary loss, that of a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTextTask(EncoderTask):
    """Turns texts into tensors, and one output for each into a loss, optionally with the loss of a language model.

        loss = mean over inputs of the task's loss + auxiliary * mean over tokens of - log p(x_t | x_1 .. x_{t-1})

    (Radford et al. 2018, equation 5.) The language model predicts the tokens of the texts, but no special tokens and no padding.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the maximum number of tokens of one input, special ones included; longer inputs are truncated.
        auxiliary: lambda, the weight of the language model's loss; 0 for none.
    """

    auxiliary: float = 0.0

    def auxiliary_labels(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """The number of tokens of each example that the language model predicts, if there is an auxiliary loss."""
        if not self.auxiliary:
            return {}
        special = [int((np.asarray(data.sequence(SECOND, row)) > 0).sum()) for row in range(len(data))]
        inputs = data.lengths(SECOND)
        return {NEXT_TOKEN: self.readings * (data.lengths(TEXT) - 2 * inputs - np.array(special, dtype=np.int64))}

    def read(self, model: nn.Module, tokens: Tokens, segments: Tensor) -> tuple[Encoded, dict[str, LossSum]]:
        """The output of the model for a batch, and the auxiliary losses."""
        if not self.auxiliary:
            return encoded_by(model, tokens, segments, readings=self.readings), {}
        at, labels = next_tokens(tokens, self.tokenizer)
        encoded = encoded_by(model, tokens, segments, at=at, readings=self.readings)
        total, correct = smoothed_cross_entropy(encoded.next_token, labels)
        return encoded, {NEXT_TOKEN: LossSum(self.auxiliary * total, len(labels), correct)}

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse a `maximum_length` above the model's positions, and an auxiliary loss for a model without next-token prediction.

        Raises:
            InputError: naming the settings.
        """
        EncoderTask.check(self, model, train, validation)
        if self.auxiliary and not model.tells_next:
            raise InputError(
                f"data.auxiliary is {self.auxiliary:g}, and a {model.config.model_type} predicts no next token: it is "
                "bidirectional, or has no output table; leave it out, or start from a decoder such as gpt2"
            )

    def auxiliary_metrics(self, name: str, loss: float, right: float) -> dict[str, float]:
        """Loss and accuracy of next-token prediction, without the weight of the auxiliary loss."""
        return {f"{name}_loss": loss / self.auxiliary, f"{name}_accuracy": right}


def next_tokens(tokens: Tokens, tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """The tokens to predict, (M,) int64, and the positions before them, (M,) int64, as indices into B x L.

    The special tokens at the start, at the end and between texts are not predicted.
    """
    around = torch.tensor(
        sorted({tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id}), device=tokens.ids.device
    )
    text = tokens.valid & ~torch.isin(tokens.ids, around)
    places = text.flatten().nonzero().squeeze(1)
    return places - 1, tokens.ids.flatten()[places]


E = TypeVar("E", bound=EncoderTask)

BATCH_TOKENS = 4096
"""The number of tokens in one batch, padding included: enough for two cores, and few enough to stay in their caches."""


class EncoderPredictor(Predictor[E]):
    """A model that reads one or two whole texts and makes a prediction, ready to use.

    Arguments:
        model: a `TextEncoder`, or another `SequenceClassifier`, with the task's head.
        task: tokenizer and settings.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    validates_all: ClassVar[bool] = True

    @property
    def maximum_length(self) -> int:
        """The most tokens that one input can have, the smaller of the task's limit and the model's."""
        return min(self.task.maximum_length, self.model.maximum_length)

    def encoded(
        self,
        inputs: Sequence[Joined],
        *,
        batch_tokens: int = BATCH_TOKENS,
        at: Callable[[Tokens], Tensor] | None = None,
    ) -> Iterator[tuple[list[int], Tokens, Encoded]]:
        """The outputs of the model for the inputs, in batches of similar length.

        Arguments:
            batch_tokens: the number of tokens in one batch. It changes memory and speed, and results only by rounding.
            at: for heads over the vocabulary: returns the positions of a batch, as indices into B x L, whose logits are needed;
                None = all.

        Yields:
            The indices of the inputs in a batch, the batch, and the model's output for it.

        Raises:
            InputError: for logits that are not finite.
        """
        if not inputs:
            return
        readings = self.task.readings
        lengths = readings * np.array([[len(joined.ids)] for joined in inputs], dtype=np.int64)
        for rows in Batches(lengths, maximum_tokens=batch_tokens).in_order():
            chosen = [inputs[row] for row in rows]
            tokens, segments = padded(chosen, padding_id=self.task.tokenizer.padding_id, readings=readings)
            tokens = tokens.to(self.device)
            with torch.no_grad():
                places = None if at is None else at(tokens)
                found = encoded_by(self.model, tokens, segments.to(self.device), at=places, readings=readings)
            for part in (found.logits, found.next_sentence, found.next_token):
                if part is not None:
                    # Logits of each token (padding included), of each text, or of the requested positions.
                    each = part.shape[:-1] == tokens.valid.shape and at is None
                    check_finite(part, "these texts", where=tokens.valid if each else None)
            yield rows.tolist(), tokens, found

    def tell(self, predictions: Sequence[Any]) -> None:
        """Report the predictions of a batch to the observers of this thread, such as a progress bar."""
        for watcher in self._watchers():
            watcher.predicted(predictions, [])

    def stored(self, data: TokenStore, count: int) -> list[Joined]:
        """The first `count` inputs of a store."""
        return read_inputs(data, range(min(count, len(data))))


# Files in an encoder's folder for other programs, besides config and weights, and reading their folders.


NAMES = ("tokenizer.json", "vocab.txt")
TOKENIZER_CONFIG = "tokenizer_config.json"


def obstacle(tokenizer: Tokenizer) -> str:
    """Why other programs would tokenize texts differently, as half a sentence; empty if they would not."""
    if tokenizer.kind == "bert" or tokenizer.surrounds:
        return ""
    return f"the tokenizer is of kind {tokenizer.kind} and puts no [CLS] and [SEP] around a text"


def write_tokenizer_config(folder: Path, tokenizer: Tokenizer, *, maximum: int) -> None:
    """Write tokenizer_config.json.

    Arguments:
        maximum: the number of the model's positions.
    """
    values = tokenizer_config(tokenizer, maximum_length=maximum)
    replace_file(folder / TOKENIZER_CONFIG, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def tokenizer_from_hf(folder: Path, config: Any) -> Tokenizer:
    """The tokenizer of a folder that another program wrote.

    Arguments:
        config: the config of the model in the folder.

    Raises:
        InputError: if there is no readable tokenizer, or it does not match config.json.
    """
    if MODELS[config.model_type].spelling:
        return Tokenizer.train([], kind="spelling", size=SPELLING_SIZE)
    if not any((folder / name).is_file() for name in NAMES) and merge_files_in(folder) is None:
        models = sorted(folder.glob("*.model"))
        raise InputError(
            f"{folder}: has neither {NAMES[0]} nor {NAMES[1]} nor vocab.json and merges.txt; "
            + (
                f"{models[0].name} is SentencePiece's, so write a {NAMES[0]} of it first: "
                "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
                if models
                else "copy the tokenizer from the model's source"
            )
        )
    tokenizer = Tokenizer.load(folder)
    if tokenizer.size > config.vocabulary:
        raise InputError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens and config.json's vocab_size is {config.vocabulary}; "
            "tokenizer and model must come from the same folder"
        )
    if MODELS[config.model_type].input_tokens and not tokenizer.surrounds:
        raise InputError(
            f"{folder}: its tokenizer.json does not put a token before and after each text, which a {config.model_type} needs "
            "here; fine-tune it with model.pretrained, or add them to its post_processor"
        )
    return tokenizer
