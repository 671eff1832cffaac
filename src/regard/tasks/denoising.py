"""Pre-training by denoising: generate the original of a text with masked spans and permuted sentences (Lewis et al. 2020)."""

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

    The documents are concatenated and the stream is cut into stretches of equal length, each of which is corrupted.

    Arguments:
        train: a file of plain text, or several; gzip is recognised.
        validation: other files of plain text; if null, documents are held out from the training files.
        validation_share: the share of documents to hold out.
        validation_size: the number of documents to hold out instead, at most a tenth of all.
        builtin: `python_docs`, the reference text that comes with Python, in addition to the files, or alone; some of its
            topics are used for validation.
        documents: where a document ends: at a `blank_line`; at a `heading` such as WikiText's ` = Title = `; or with each `line`.
        cleaning: `wikitext` restores the spaces and hyphens of the original text, and reads `<unk>` as the unknown token.
        length: the number of tokens of a stretch, with its start and end token.
        density: the share of the tokens that are masked.
        mean_span: the mean of the Poisson distribution of the length of a span.
        permute: whether to permute sentences, which end at full stops.
        corruption: `dynamic` samples new noise in every epoch, `static` uses the same noise in every epoch.

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
        """The noise to apply to stretches.

        Raises:
            InputError: for a density or mean out of range.
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
        kind: `roberta` (as published) is BPE of bytes with a mask token; `bert` is BERT's WordPiece.
        size: the maximum size of the vocabulary.
        lowercase: whether to lower-case texts, for kind `bert`.
        path: a folder, tokenizer.json, vocab.txt or vocab.json (with its merges.txt) to use instead of training a tokenizer;
            null with `model.pretrained` uses the tokenizer of that model.
        sentinels: not used by this task.
    """

    kind: Literal["roberta", "bert"] = "roberta"  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(frozen=True, slots=True)
class DenoisingTask(StretchTask):
    """Corrupts stretches of text, and turns a model's outputs into a loss (Lewis et al. 2020, section 2.2).

        loss = mean over the text's tokens, `<s>` and `</s>` included, of -log p(token | tokens before it, noisy text)

    Arguments:
        tokenizer: for input and target; it has a mask token, and adds a start and an end token to each text.
        noise: how texts are corrupted.
        generation: the default decoding settings.
    """

    name: ClassVar[str] = "denoising"

    tokenizer: Tokenizer
    noise: Denoising = field(default_factory=Denoising)
    generation: GenerationSettings = field(default_factory=GenerationSettings)

    @property
    def surrounds(self) -> bool:
        """True: texts are between the start and the end token, as for BART."""
        return True

    @property
    def usual(self) -> GenerationSettings:
        """The default decoding settings."""
        return self.generation

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizer of source and target, which is the same."""
        return self.tokenizer, self.tokenizer

    @property
    def full_stops(self) -> tuple[int, ...]:
        """The ids of the full stop, with and without a space before it, which end a sentence."""
        found = (self.tokenizer.find(token) for token in (".", "Ġ.", "▁.", "##."))
        return tuple(index for index in found if index is not None)

    def corrupted(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], draw: int | None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The corrupted and the original token ids of some stretches."""
        mask = int(self.tokenizer.mask_id or 0)
        noisy = self.noise.corrupt(texts, rows, mask=mask, separators=self.full_stops, draw=draw)
        return [each.tolist() for each in noisy], [each.tolist() for each in texts]

    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """The maximum number of tokens of each input and of its target, which are equal, (N, 2)."""
        return np.stack([lengths + self.around] * 2, axis=1)

    def stretch(self, length: int) -> int:
        """The maximum number of tokens of a stretch: an input is never longer than its original."""
        return length - self.around

    def noted(self, lengths: np.ndarray) -> str:
        """The share of masked tokens, for a message."""
        return f"of which {self.noise.counts(lengths).sum() / lengths.sum():.1%} are masked"

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of stretches and tokens and the size of the vocabulary, as one line."""
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
        """Why other programs would tokenize texts differently, as half a sentence; empty if they would not."""
        return pair_obstacle(self.tokenizer, self.tokenizer, config.target_vocabulary, surrounds=True)

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json and generation_config.json if other programs open the model."""
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
    """Check that a tokenizer has a mask token and adds a start and an end token; return it.

    Raises:
        InputError: if it does not.
    """
    if tokenizer.mask_id is None or not tokenizer.surrounds:
        lack = "has no mask" if tokenizer.mask_id is None else "does not put a text between a start and an end token"
        raise InputError(f"{where}: the tokenizer {lack}; use another one, or train one with tokenizer.kind=roberta")
    return tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledText:
    """The text that a model generated from a text with masks.

    Arguments:
        text: the given text with its masks.
        best: the generated text, complete.
        tokens: its tokens, special tokens included.
        log_probability: its log-probability, natural log.
    """

    text: str
    best: str
    tokens: tuple[str, ...]
    log_probability: float


class Denoiser(PairPredictor[DenoisingTask]):
    """A model pre-trained by denoising, ready to use: it generates a whole text with words in place of each mask.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: the tokenizer, and how texts were corrupted in training.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    @property
    def mask(self) -> str:
        """The mask token as text, such as `<mask>`."""
        return self.task.tokenizer.tokens([int(self.task.tokenizer.mask_id or 0)])[0]

    def fill(self, text: str, settings: GenerationSettings | None = None) -> FilledText:
        """Fill the masks of a text such as "Paris <mask> of France."; the model generates the whole text.

        Arguments:
            text: the text. Each `<mask>` can become any number of words, or none. The other words may also change.
            settings: how to decode; None for the settings of the model's folder.

        Raises:
            InputError: for an empty text, or one that is too long.
        """
        return self.fill_batch([text], settings)[0]

    def fill_batch(
        self, texts: Sequence[str], settings: GenerationSettings | None = None, *, batch_size: int = 64
    ) -> list[FilledText]:
        """Fill the masks of many texts; the results are in the order of the texts.

        Arguments:
            settings: as in `fill`.
            batch_size: the number of texts decoded together. It changes memory and speed, and sampled results.

        Raises:
            InputError: as `fill`.
        """
        if isinstance(texts, str):
            raise InputError("a single string was given instead of a list of texts; put it in a list")
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
            InputError: if `to` is given, because the model has no languages or parts.
        """
        if to is not None:
            raise InputError(f"to is {to!r}, and the model only fills masks; leave it out")
        return self.task.tokenizer.encode_marked(text, (self.mask,))

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that are never generated: none, as in other programs."""
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
    """Read the texts once for the tokenizer and once for the tokens, and write both into `folder`; see `prepare_stretches`.

    Raises:
        InputError: for data that cannot be read, too little data, or a tokenizer without a mask.
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
    """The task of a folder that another program wrote: its tokenizer and decoding settings, with the published noise.

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
