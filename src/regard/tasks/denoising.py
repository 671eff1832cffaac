"""Pre-training by denoising: write a text as it was before spans and the order of its sentences were lost (Lewis et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.data.denoising import Denoising
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis
from regard.structure import from_mapping
from regard.tasks.documents import DOCUMENTS
from regard.tasks.generation_config import foreign_pair_tokenizer, pair_obstacle, write_generation_config
from regard.tasks.pairs import PairPredictor, written_tokens
from regard.tasks.predictor import refuse_gaps
from regard.tasks.preparation import Prepared, TokenizerSettings
from regard.tasks.spec import TaskSpec
from regard.tasks.stretches import STRETCH, StretchData, StretchTask, evaluate_stretches, prepare_stretches
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class DenoisingData(StretchData):
    """The `data` section of a recipe.

    The documents are laid end to end and the stream is cut into stretches of equal length, each of which is made noisy.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: likewise; held out from the training files, document by document, where null.
        validation_share: of the documents, to be held out.
        validation_size: so many instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; a few of its
            topics are for validation.
        documents: where one ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` undoes what those sets did to spaces and hyphens, and reads `<unk>` as the unknown token.
        length: tokens of a stretch, the two around it included.
        density: share of the tokens taken out.
        mean_span: of the Poisson distribution of a span's length.
        permute: whether sentences, which full stops end, are put in random order.
        corruption: `dynamic` makes other noise in every epoch, `static` the same in each.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    density: float = 0.3
    mean_span: float = 3.0
    permute: bool = True
    corruption: Literal["dynamic", "static"] = "dynamic"

    def __post_init__(self) -> None:
        StretchData.__post_init__(self)
        self.noise(0)

    def noise(self, seed: int) -> Denoising:
        """How stretches are made noisy.

        Raises:
            InputError: for a density or mean that is none.
        """
        return Denoising(
            density=self.density,
            mean_span=self.mean_span,
            permute=self.permute,
            static=self.corruption == "static",
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskTokenizerSettings(TokenizerSettings):
    """The `tokenizer` section of a recipe.

    Arguments:
        kind: `roberta` (as published) is BPE of bytes with a mask; `bert` is BERT's WordPiece.
        size: the largest vocabulary.
        lowercase: drop case, of kind `bert`.
        path: a folder, tokenizer.json, vocab.txt or vocab.json (with its merges.txt) to take instead of training one; that of
            `model.pretrained` where there is one.
        sentinels: none here.
    """

    kind: Literal["roberta", "bert"] = "roberta"  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True, slots=True)
class DenoisingTask(StretchTask):
    """What makes stretches of text noisy, and turns a model's outputs into a loss (Lewis et al. 2020, section 2.2).

        loss = mean over the text's tokens, `<s>` and `</s>` included, of -log p(token | those before, noisy text)

    Arguments:
        tokenizer: for input and target; it has a mask, and puts a text between two tokens.
        noise: how texts are made noisy.
        generation: the default decoding settings.
    """

    name: ClassVar[str] = "denoising"

    tokenizer: Tokenizer
    noise: Denoising = field(default_factory=Denoising)
    generation: GenerationSettings = field(default_factory=GenerationSettings)

    @property
    def surrounds(self) -> bool:
        """Texts are between the start and the end token, as BART's do."""
        return True

    @property
    def usual(self) -> GenerationSettings:
        """The folder's own settings."""
        return self.generation

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The one tokenizer, twice."""
        return self.tokenizer, self.tokenizer

    @property
    def full_stops(self) -> tuple[int, ...]:
        """The ids of the full stop, with and without a space before it: each ends a sentence."""
        found = (self.tokenizer.find(token) for token in (".", "Ġ.", "▁.", "##."))
        return tuple(index for index in found if index is not None)

    def corrupted(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], draw: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Some stretches made noisy, and as they were."""
        mask = int(self.tokenizer.mask_id or 0)
        noisy = self.noise.corrupt(texts, rows, mask=mask, separators=self.full_stops, draw=draw)
        return [each.tolist() for each in noisy], [each.tolist() for each in texts]

    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """The most tokens of each input, which are those of its target, (N, 2)."""
        return np.stack([lengths + self.around] * 2, axis=1)

    def stretch(self, length: int) -> int:
        """The most tokens of a stretch: an input is no longer than its text."""
        return length - self.around

    def noted(self, lengths: np.ndarray) -> str:
        """How much is taken out."""
        return f"of which {self.noise.counts(lengths).sum() / lengths.sum():.1%} are taken out"

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Stretches, tokens and vocabulary in a few words."""
        return (
            f"{len(train):,} stretches to learn from ({int(train.lengths(STRETCH).sum()):,} tokens), {len(validation):,} to "
            f"validate on; a vocabulary of {self.tokenizer.size:,}"
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        return {"name": self.name, "noise": asdict(self.noise), "generation": asdict(self.generation)}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> DenoisingTask:
        """The task that `save` wrote into `folder`.

        Raises:
            InputError: for a tokenizer without a mask.
        """
        where = f"{folder / 'regard.json'}: task"
        noise = from_mapping(Denoising, values.get("noise", {}), f"{where}.noise")
        generation = from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation")
        return cls(with_mask(Tokenizer.load(folder), str(folder)), noise, generation)

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        (mask,) = self.tokenizer.tokens([int(self.tokenizer.mask_id or 0)])
        return [f'print(model.fill("... {mask} ...").best)']

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs could not read texts as the tokenizer here does, as half a sentence; empty where they can."""
        return pair_obstacle(self.tokenizer, self.tokenizer, config.target_vocabulary, surrounds=True)

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json and generation_config.json, where other programs open the model."""
        if opens:
            write_generation_config(
                folder,
                self.tokenizer,
                self.generation,
                start_id=self.start_id,
                maximum=config.maximum_positions,
                never=[],
            )


def with_mask(tokenizer: Tokenizer, where: str) -> Tokenizer:
    """The tokenizer itself.

    Raises:
        InputError: where it has no mask, or puts a text not between two tokens.
    """
    if tokenizer.mask_id is None or not tokenizer.surrounds:
        lack = "has no mask" if tokenizer.mask_id is None else "does not put a text between a start and an end token"
        raise InputError(f"{where}: the tokenizer {lack}; take one that does, or train one with tokenizer.kind=roberta")
    return tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledText:
    """What a model wrote for a noisy text.

    Arguments:
        text: as given, with its masks.
        best: the whole text that the model wrote.
        tokens: of that, the special ones included.
        log_probability: of that, natural log.
    """

    text: str
    best: str
    tokens: tuple[str, ...]
    log_probability: float


class Denoiser(PairPredictor[DenoisingTask]):
    """A model pre-trained by denoising: it writes a text again, with words in place of each mask.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: the tokenizer, and how texts were made noisy in training.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    @property
    def mask(self) -> str:
        """The spelling of the mask, such as `<mask>`."""
        return self.task.tokenizer.tokens([int(self.task.tokenizer.mask_id or 0)])[0]

    def fill(self, text: str, settings: GenerationSettings | None = None) -> FilledText:
        """A text such as "Paris <mask> of France." as the model writes it, whole.

        Arguments:
            text: each `<mask>` stands for any number of words, or none. Words around them may come out changed.
            settings: how to decode; None for the settings of the model's folder.

        Raises:
            InputError: for an empty text, or one that is too long.
        """
        return self.fill_batch([text], settings)[0]

    def fill_batch(
        self, texts: Sequence[str], settings: GenerationSettings | None = None, *, batch_size: int = 64
    ) -> list[FilledText]:
        """The same for many texts; the answers come in the order of the texts.

        Arguments:
            settings: as in `fill`.
            batch_size: texts decoded together. It changes memory and speed, and no answer but what is sampled.

        Raises:
            InputError: as `fill`.
        """
        if isinstance(texts, str):
            raise InputError("one string given where a list of texts is wanted; put it in a list")
        refuse_gaps(texts)
        encoded = [self.encode_source(text) for text in texts]
        self.refuse_too_long(encoded)
        return self.searched(
            encoded,
            (settings or self.usual).with_ids(self.task.tokenizer),
            lambda i, found: self._filled(texts[i], found[0]),
            batch_size=batch_size,
        )

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text with masks.

        Raises:
            InputError: for a language or part.
        """
        if to is not None:
            raise InputError(f"to is {to!r}, and the model fills in masks alone; leave it out")
        return self.task.tokenizer.encode_marked(text, (self.mask,))

    @property
    def never(self) -> tuple[int, ...]:
        """Nothing: what other programs let it write it may write."""
        return ()

    def _filled(self, text: str, found: Hypothesis) -> FilledText:
        return FilledText(
            text=text,
            best=self.task.tokenizer.decode(found.tokens),
            tokens=written_tokens(self.task, found),
            log_probability=found.log_probability,
        )


def prepare_denoising(
    data: DenoisingData,
    tokenizer: MaskTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[DenoisingTask]:
    """Read the texts once for the tokenizer and once for the tokens, and leave both in `folder`; see `prepare_stretches`.

    Raises:
        InputError: for data that cannot be read or too little of it, or a tokenizer without a mask.
    """
    noise = data.noise(seed)
    return prepare_stretches(
        DenoisingTask,
        lambda found, where: DenoisingTask(with_mask(found, where), noise),
        data,
        tokenizer,
        folder,
        seed=seed,
        given=given,
        given_validation=given_validation,
    )


def denoising_from_hf(folder: Path, config: Any) -> DenoisingTask:
    """The task of a folder that another program wrote: its tokenizer and decoding settings, and noise as published.

    Raises:
        InputError: as `foreign_pair_tokenizer`, and for a tokenizer without a mask.
    """
    tokenizer, generation = foreign_pair_tokenizer(folder, config)
    return DenoisingTask(with_mask(tokenizer, str(folder)), generation=generation)


DENOISING = TaskSpec(
    task=DenoisingTask,
    predictor=Denoiser,
    interface="encoder_decoder",
    sections={"data": DenoisingData, "tokenizer": MaskTokenizerSettings},
    prepare=prepare_denoising,
    evaluate=evaluate_stretches,
    derived_config={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    examples=DOCUMENTS,
    from_hf=denoising_from_hf,
)
