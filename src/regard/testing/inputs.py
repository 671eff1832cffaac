"""The inputs that the checks give to models, one class for each interface, and the comparison of outputs."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers import NEVER, Encoded, Images, Tokens
from regard.models import MODELS, Family

Outputs = list[dict[str, Tensor]]
"""A model's outputs for each row: tensors by name, at real tokens only."""
R = TypeVar("R")


SEED = 20150519
EXACT = 1e-10
"""Relative tolerance in float64; a hundredth of it is the absolute one. It allows for another order of additions only."""


class CheckFailed(AssertionError):
    """A model or mechanism violates its interface's contract."""


def run_checks(called: str, checks: dict[str, Callable[[], None]], without: Collection[str]) -> list[str]:
    """Run all checks except some; returns the names of those that ran.

    Arguments:
        called: the name of the model or mechanism, for messages.
        checks: functions that raise `CheckFailed`, by name.
        without: names of checks to leave out.

    Raises:
        CheckFailed: with the name of the first check that failed, and why.
        InputError: for an unknown name in `without`.
    """
    unknown = [name for name in without if name not in checks]
    if unknown:
        raise InputError(f"there is no check {unknown[0]!r} of a {called}; choose from {', '.join(checks)}")
    chosen = {name: check for name, check in checks.items() if name not in without}
    for name, check in chosen.items():
        try:
            check()
        except AssertionError as error:
            why = "; ".join([str(error), *getattr(error, "__notes__", [])])
            raise CheckFailed(f"{called}, {name}: {why}") from error
    return list(chosen)


def ensure(condition: bool | Tensor, sentence: str) -> None:
    """Raise `CheckFailed` with a sentence unless a condition holds."""
    if not bool(condition):
        raise CheckFailed(sentence)


def close(found: Outputs, expected: Outputs, what: str, *, exactly: bool = False, tolerance: float = EXACT) -> None:
    """Fail unless the outputs of two batches are equal: bit for bit, or up to rounding."""
    ensure(len(found) == len(expected), f"{what}: {len(found)} rows for {len(expected)}")
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        ensure(one.keys() == other.keys(), f"{what}: row {row} gives {', '.join(one)}, and {', '.join(other)} expected")
        for name in one:
            same(one[name], other[name], f"{what}: {name} of row {row}", exactly=exactly, tolerance=tolerance)


def same(found: Tensor, expected: Tensor, what: str, *, exactly: bool = False, tolerance: float = EXACT) -> None:
    """Fail unless two tensors are equal: bit for bit, or up to rounding."""
    rtol, atol = (0.0, 0.0) if exactly else (tolerance, tolerance / 100)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda message: f"{what}: {message}")


def moved(found: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference between two rows' outputs."""
    return max(float((found[name] - other[name]).detach().abs().max()) for name in found)


def real(logits: Tensor) -> Tensor:
    """Logits with 0 in place of the huge negative numbers of excluded tokens, which would mask other differences."""
    return logits.masked_fill(logits <= 0.9 * NEVER, 0.0)


class Inputs(ABC, Generic[R]):
    """Batches of three rows of different lengths for one kind of model.

    Arguments:
        config: of the model.
    """

    low_precision = True
    """Whether parameters may be bfloat16."""
    sides: tuple[str, ...] = ("right",)
    lengths: tuple[int, ...] = (6, 3, 5)
    tolerance = 1e-10

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def vocabulary(self) -> int | None:
        """The number of tokens that the logits are over; None for models without such logits."""
        return None

    @abstractmethod
    def batch(self, side: str = "right") -> R:
        """The batch, padded on a side."""

    @abstractmethod
    def alone(self, row: int) -> R:
        """One of its rows, without padding."""

    @abstractmethod
    def select(self, read: R, rows: Tensor) -> R:
        """Some rows of a batch."""

    @abstractmethod
    def outputs(self, model: Any, read: R) -> Outputs:
        """The model's outputs for a batch."""

    @abstractmethod
    def changes(self) -> Iterator[tuple[int, R]]:
        """The batch with one input of a row changed, and the row."""


class PaddedInputs(Inputs[R]):
    """Rows of token ids, padded to one length."""

    @abstractmethod
    def filled(self, read: R) -> R:
        """The batch with other ids at padding."""

    @abstractmethod
    def emptied(self, read: R, row: int) -> R:
        """The batch with no real token in a row."""

    @abstractmethod
    def of_length(self, length: int) -> R:
        """One row of `length` tokens."""


class StepInputs(Inputs[R]):
    """Inputs of a model that predicts each next token, for a whole text at once or token by token."""

    step_sides: tuple[str, ...] = ("right",)

    @abstractmethod
    def later_changes(self) -> Iterator[tuple[int, int, R]]:
        """The batch with one target token changed: the row, the position, and the batch."""

    @abstractmethod
    def written(self, read: R) -> Tensor:
        """(N, L) int64, the tokens that are fed one at a time."""

    @abstractmethod
    def start(self, model: Any, read: R) -> Any:
        """The state before the first token."""

    @abstractmethod
    def by_row(self, logits: Tensor, read: R) -> Outputs:
        """(N, L, V) logits of every step as outputs of each row, at real tokens only."""

    def stepped(self, model: Any, read: R) -> tuple[Tensor, list[Any]]:
        """Logits (N, L, V) from feeding the tokens one at a time, and the state after each."""
        state = self.start(model, read)
        logits, states = [], []
        for tokens in self.written(read).unbind(dim=1):
            step, state = model.step(tokens, state)
            logits.append(step)
            states.append(state)
        return torch.stack(logits, dim=1), states


def random_rows(lengths: tuple[int, ...], vocabulary: int, seed: int, start: int | None = None) -> list[list[int]]:
    """Rows of random ids from 3 on; with `start`, each begins with that token."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, vocabulary, (length,), generator=draw).tolist() for length in lengths]
    return rows if start is None else [[start, *row[1:]] for row in rows]


def changed(tokens: Tokens, row: int, place: int, vocabulary: int) -> Tokens:
    """The tokens with another id at a real position of a row."""
    ids = tokens.ids.clone()
    slot = int(tokens.valid[row].nonzero()[place])
    ids[row, slot] = 3 + (ids[row, slot] - 3 + 1) % (vocabulary - 3)
    return dataclasses.replace(tokens, ids=ids)


def filled(tokens: Tokens, other: int) -> Tokens:
    """The tokens with another id at padding."""
    return dataclasses.replace(tokens, ids=tokens.ids.masked_fill(~tokens.valid, other))


def emptied(tokens: Tokens, row: int) -> Tokens:
    """The tokens with no real token in a row."""
    valid = tokens.valid.clone()
    valid[row] = False
    return Tokens(tokens.ids, valid)


def logits_by_row(logits: Tensor, valid: Tensor) -> Outputs:
    """Logits of each row at real tokens; 0 where a huge negative number excludes a token."""
    return [{"logits": row.masked_fill(row <= 0.9 * NEVER, 0.0)[real]} for row, real in zip(logits, valid, strict=True)]


class _Texts(PaddedInputs[Tokens], StepInputs[Tokens]):
    """Texts for a language model."""

    sides = ("right", "left")
    lengths = (4, 6, 2)

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    def _rows(self) -> list[list[int]]:
        return random_rows(self.lengths, self.config.vocabulary, 1, self.config.end_id)

    def batch(self, side: str = "right") -> Tokens:
        return Tokens.pad(self._rows(), side=side)  # type: ignore[arg-type]

    def alone(self, row: int) -> Tokens:
        return Tokens.pad([self._rows()[row]])

    def select(self, read: Tokens, rows: Tensor) -> Tokens:
        return read.select(rows)

    def outputs(self, model: Any, read: Tokens) -> Outputs:
        return logits_by_row(model(read), read.valid)

    def changes(self) -> Iterator[tuple[int, Tokens]]:
        return ((row, read) for row, _, read in self.later_changes())

    def later_changes(self) -> Iterator[tuple[int, int, Tokens]]:
        for row, place in ((1, 0), (1, 2), (1, 5), (0, 3), (2, 1)):
            yield row, place, changed(self.batch(), row, place, self.config.vocabulary)

    def filled(self, read: Tokens) -> Tokens:
        return filled(read, 5)

    def emptied(self, read: Tokens, row: int) -> Tokens:
        return emptied(read, row)

    def of_length(self, length: int) -> Tokens:
        return Tokens.pad([[4] * length])

    def written(self, read: Tokens) -> Tensor:
        return read.ids

    def start(self, model: Any, read: Tokens) -> Any:
        return model.start(len(read.ids))

    def by_row(self, logits: Tensor, read: Tokens) -> Outputs:
        return logits_by_row(logits, read.valid)


Source = TypeVar("Source", Tokens, Images)


class _Targets(StepInputs[tuple[Source, Tokens]]):
    """A source and the target tokens that are predicted from it."""

    @property
    def vocabulary(self) -> int:
        return self.config.target_vocabulary

    def select(self, read: tuple[Source, Tokens], rows: Tensor) -> tuple[Source, Tokens]:
        return read[0].select(rows), read[1].select(rows)

    def written(self, read: tuple[Source, Tokens]) -> Tensor:
        return read[1].ids

    def start(self, model: Any, read: tuple[Source, Tokens]) -> Any:
        return model.start(read[0])

    def by_row(self, logits: Tensor, read: tuple[Source, Tokens]) -> Outputs:
        return logits_by_row(logits, read[1].valid)


Pair = tuple[Tokens, Tokens]


class _Pairs(_Targets[Tokens], PaddedInputs[Pair]):
    """Sources and targets for an encoder-decoder."""

    sides = ("right", "left", "left of the source")
    step_sides = ("right", "left of the source")
    targets = (4, 5, 2)

    def _rows(self) -> tuple[list[list[int]], list[list[int]]]:
        source = random_rows(self.lengths, self.config.source_vocabulary, 1)
        return source, random_rows(self.targets, self.config.target_vocabulary, 2, self.config.start_id)

    def batch(self, side: str = "right") -> Pair:
        source, target = self._rows()
        return (
            Tokens.pad(source, side="right" if side == "right" else "left"),
            Tokens.pad(target, side="left" if side == "left" else "right"),
        )

    def alone(self, row: int) -> Pair:
        source, target = self._rows()
        return Tokens.pad([source[row]]), Tokens.pad([target[row]])

    def outputs(self, model: Any, read: Pair) -> Outputs:
        return logits_by_row(model(*read), read[1].valid)

    def changes(self) -> Iterator[tuple[int, Pair]]:
        source, target = self.batch()
        for row, place in ((0, 0), (0, 5), (1, 2), (2, 4)):
            yield row, (changed(source, row, place, self.config.source_vocabulary), target)

    def later_changes(self) -> Iterator[tuple[int, int, Pair]]:
        source, target = self.batch()
        for row, place in ((1, 0), (1, 2), (1, 4), (0, 3), (2, 1)):
            yield row, place, (source, changed(target, row, place, self.config.target_vocabulary))

    def filled(self, read: Pair) -> Pair:
        return filled(read[0], 5), filled(read[1], 5)

    def emptied(self, read: Pair, row: int) -> Pair:
        return emptied(read[0], row), read[1]

    def of_length(self, length: int) -> Pair:
        return Tokens.pad([[4] * length]), Tokens.pad([[self.config.start_id]])


Parted = tuple[Tokens, Tensor]


class _WholeTexts(PaddedInputs[Parted]):
    """Texts, two of them with two segments, for an encoder, a classifier of whole texts, or a sentence encoder."""

    sides = ("right", "left")
    seconds = (4, 3, 2)
    """Where the second segment of each row begins."""

    def _rows(self) -> list[list[int]]:
        rows = random_rows(self.lengths, self.config.vocabulary, 1, 1)
        # For a model that reads by sentences: a sentence boundary in the middle and at the end of a text.
        for boundary in getattr(self.config, "boundary_ids", ())[-1:]:
            rows = [[*row[:2], boundary, *row[3:-1], boundary] if len(row) > 3 else row for row in rows]
        return rows

    def _parted(self, tokens: Tokens, rows: list[int]) -> Parted:
        segments = torch.zeros_like(tokens.ids)
        for place, row in enumerate(rows):
            real = tokens.valid[place].nonzero()[:, 0]
            segments[place, real[self.seconds[row] :]] = 1
        return tokens, segments

    def batch(self, side: str = "right") -> Parted:
        return self._parted(Tokens.pad(self._rows(), side=side), [0, 1, 2])  # type: ignore[arg-type]

    def alone(self, row: int) -> Parted:
        return self._parted(Tokens.pad([self._rows()[row]]), [row])

    def select(self, read: Parted, rows: Tensor) -> Parted:
        return read[0].select(rows), read[1].index_select(0, rows)

    def outputs(self, model: Any, read: Parted) -> Outputs:
        encoded: Encoded = model(*read)
        valid = read[0].valid
        found: Outputs = [{} for _ in valid]
        for name, value in zip(encoded._fields, encoded, strict=True):
            if value is None:
                continue
            of_tokens = value.dim() == 3
            for row, values in enumerate(found):
                values[name] = value[row][valid[row]] if of_tokens else value[row]
        return found

    def changes(self) -> Iterator[tuple[int, Parted]]:
        tokens, segments = self.batch()
        for row, place in ((0, 1), (0, 5), (1, 2), (2, 4)):
            yield row, (changed(tokens, row, place, self.config.vocabulary), segments)

    def filled(self, read: Parted) -> Parted:
        return filled(read[0], 5), read[1].masked_fill(~read[0].valid, 1)

    def emptied(self, read: Parted, row: int) -> Parted:
        return emptied(read[0], row), read[1]

    def of_length(self, length: int) -> Parted:
        tokens = Tokens.pad([[4] * length])
        return tokens, torch.zeros_like(tokens.ids)


class _Images(Inputs[Images]):
    """Three images for a classifier, of the size in the model's config."""

    lengths = (1, 1, 1)
    tolerance = 1e-6  # images are float32 before the first layer

    def _random_images(self) -> list[np.ndarray]:
        height, width = self.config.image_height, self.config.image_width
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, (1, height, width, self.config.image_channels), dtype=np.uint8) for _ in range(3)]

    def batch(self, side: str = "right") -> Images:
        return Images.of(self._random_images())

    def alone(self, row: int) -> Images:
        return Images.of([self._random_images()[row]])

    def select(self, read: Images, rows: Tensor) -> Images:
        return read.select(rows)

    def outputs(self, model: Any, read: Images) -> Outputs:
        return [{"logits": row} for row in model(read)]

    def changes(self) -> Iterator[tuple[int, Images]]:
        for row, corner in ((0, (0, 0)), (1, (-1, -1))):
            read = self.batch()
            read.pixels[row, 0, :, corner[0], corner[1]] ^= 0xFF
            yield row, read


Captions = tuple[Images, Tokens]


class _Captions(_Targets[Images]):
    """Images of one to three frames, and captions, for a captioner."""

    lengths = (3, 5, 2)
    tolerance = 1e-5  # images are float32 before the first layer
    frames = (1, 3, 2)

    def _random_captions(self) -> tuple[list[np.ndarray], list[list[int]]]:
        rng, config = np.random.default_rng(0), self.config
        size = (config.image_height, config.image_width, config.image_channels)
        images = [rng.integers(0, 256, (count, *size), dtype=np.uint8) for count in self.frames]
        return images, random_rows(self.lengths, config.target_vocabulary, 1, config.start_id)

    def batch(self, side: str = "right") -> Captions:
        images, rows = self._random_captions()
        return Images.of(images), Tokens.pad(rows)

    def alone(self, row: int) -> Captions:
        images, rows = self._random_captions()
        return Images.of([images[row]]), Tokens.pad([rows[row]])

    def outputs(self, model: Any, read: Captions) -> Outputs:
        found = model(*read, attended=True)
        outputs = logits_by_row(found.logits, read[1].valid)
        if found.weights is not None:
            for row, values in enumerate(outputs):
                values["weights"] = found.weights[row][read[1].valid[row]][:, found.places[row]]
        return outputs

    def changes(self) -> Iterator[tuple[int, Captions]]:
        for row, corner in ((0, (0, 0)), (1, (-1, -1))):
            images, tokens = self.batch()
            images.pixels[row, 0, :, corner[0], corner[1]] ^= 0xFF
            yield row, (images, tokens)

    def later_changes(self) -> Iterator[tuple[int, int, Captions]]:
        images, target = self.batch()
        for row, place in ((1, 0), (1, 2), (1, 4), (2, 1)):
            yield row, place, (images, changed(target, row, place, self.config.target_vocabulary))


KINDS: dict[str, type[Inputs[Any]]] = {
    "language_model": _Texts,
    "encoder_decoder": _Pairs,
    "encoder": _WholeTexts,
    "whole_text": _WholeTexts,
    "text_vectors": _WholeTexts,
    "image_classifier": _Images,
    "captioner": _Captions,
}


def inputs_of(family: Family, config: Any) -> Inputs[Any]:
    """The inputs for a family's models.

    Raises:
        InputError: for an interface without checks.
    """
    if family.interface not in KINDS:
        raise InputError(
            f"a {config.model_type} has the interface {family.interface}, which has no checks; checks exist for "
            + ", ".join(KINDS)
        )
    return KINDS[family.interface](config)


class ModelCase:
    """A config, inputs for its interface, and models of it with random parameters, of which none is zero or one."""

    def __init__(self, config: Any, idle: tuple[str, ...]) -> None:
        self.config, self.idle = config, idle
        self.family = MODELS[config.model_type]
        self.interface = self.family.interface
        self.inputs: Any = inputs_of(self.family, config)  # perhaps PaddedInputs, StepInputs or both

    def model(self, dtype: torch.dtype = torch.float64) -> Any:
        """The model in evaluation mode, with the same parameters each time."""
        model = self.family.model(self.config)
        draw = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in model.parameters():
                fan = parameter.shape[-1] if parameter.dim() > 1 else 4
                values = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
                parameter.copy_(0.8 * values / fan**0.5)
        return model.to(dtype).eval()

    def outputs(self, model: Any, read: Any, rows: Sequence[int] | None = None) -> Outputs:
        """The model's outputs for a batch, by row, at real tokens only."""
        found = self.inputs.outputs(model, read)
        return found if rows is None else [found[row] for row in rows]
