"""The suite `translation`: training and translating with a small Transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.bench.rounds import OURS, Contest, Contestant, Options
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks import Translator


TRAINING_PEERS = ("joeynmt",)
TRAINING_PRECISIONS = ("float32", "bfloat16")
TRANSLATION_PEERS = {
    "huggingface": ("float32", "bfloat16"),
    "ctranslate2": ("float32", "bfloat16", "int8_float32", "int8_bfloat16"),
}
"""The precisions in which each peer translates, where its build supports them; CTranslate2's `int8` is one of the last two."""

PRECISIONS = ("float32", "bfloat16", "int8")
"""Regard's precisions, where this release supports them."""

SEED = 1
LONGEST = 100
"""The most tokens on either side; longer pairs are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        layers, width, heads, feedforward_width, vocabulary: of a model with random weights.
        pairs: number of pairs to generate where none are given.
        batch_tokens: of a training batch, source and target, padding included.
        updates: in one turn.
        sentences: translated in one turn, `batch_sentences` at a time.
        beam: live hypotheses per sentence.
        extra: tokens by which an answer may be longer than its source.
    """

    layers: int = 3
    width: int = 256
    heads: int = 4
    feedforward_width: int = 1024
    vocabulary: int = 8_000
    pairs: int = 12_000
    batch_tokens: int = 4_096
    updates: int = 4
    sentences: int = 320
    batch_sentences: int = 32
    beam: int = 5
    extra: int = 50


QUICK = Sizes(
    layers=1,
    width=16,
    heads=2,
    feedforward_width=24,
    vocabulary=300,
    pairs=120,
    batch_tokens=300,
    updates=2,
    sentences=8,
    batch_sentences=4,
    beam=5,
)


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; their files are written into `folder`.

    Raises:
        InputError: for a model that is no Transformer with one vocabulary, and for pairs of which none is usable.
    """
    sizes = QUICK if options.quick else Sizes()
    pairs = builtin_pairs(sizes.pairs, seed=SEED) if options.pairs is None else options.pairs
    translator = _untrained(pairs, sizes) if options.model is None else _trained(options.model)
    # Saved again in any case: every contestant opens this folder.
    translator.save(folder / "model")
    _check_open(options, folder / "model")
    encoded = encoded_pairs(translator, pairs, options.to)
    measured = Measured(
        translator=translator,
        folder=folder,
        spoken=_spoken(translator),
        shape=_shape(translator),
        changes={"attention_bias": True} | dict.fromkeys(("dropout", "attention_dropout", "feedforward_dropout"), 0.1),
    )
    found = []
    if "training" in options.cases:
        found.append(training(options, sizes, measured, encoded))
    if "translation" in options.cases:
        found.append(translation(options, sizes, measured, encoded))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A model that is trained and that translates.

    Arguments:
        translator: with the weights for translation.
        folder: has it as `model`, and a contest's own files.
        spoken: its sizes, in words.
        shape: the sizes from which JoeyNMT builds its model.
        changes: settings of Regard's model in training, such as dropout where JoeyNMT always has it.
        name: put before the name of the case, where a suite has several models.
        peers: the precisions of each peer that translates.
        precisions: Regard's precisions for translation.
    """

    translator: Translator
    folder: Path
    spoken: str
    shape: dict[str, Any]
    changes: dict[str, Any]
    name: str = ""
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: TRANSLATION_PEERS)
    precisions: tuple[str, ...] = PRECISIONS


def _untrained(pairs: Sequence[tuple[str, str]], sizes: Sizes) -> Translator:
    """A pre-norm Transformer with random weights and a tokenizer trained on the pairs."""
    from regard.models import Transformer, TransformerConfig
    from regard.tasks.translation import TranslationTask, Translator
    from regard.text import Tokenizer

    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), kind="bpe", size=sizes.vocabulary)
    task = TranslationTask(tokenizer, tokenizer)
    settings: dict[str, Any] = dict(task.model_settings())
    config = TransformerConfig(
        **settings,
        width=sizes.width,
        heads=sizes.heads,
        feedforward_width=sizes.feedforward_width,
        encoder_layers=sizes.layers,
        decoder_layers=sizes.layers,
        norm="pre",
        sharing="all",
    )
    return Translator(Transformer(config), task)


def _trained(folder: Path) -> Translator:
    from regard.models import TransformerConfig
    from regard.tasks.loading import load

    translator = load(folder, task="translation")
    config = translator.model.config
    if not isinstance(config, TransformerConfig) or config.sharing != "all":
        raise InputError(
            f"{folder}: is no Transformer with one shared vocabulary, which the peers need; train one with: sharing all"
        )
    return translator


def _check_open(options: Options, folder: Path) -> None:
    """Refuse a model that the chosen peers cannot open."""
    from regard.checkpoints import read_card

    readers = [peer for peer in TRANSLATION_PEERS if peer in options.peers]
    why = read_card(folder).layout.get("why")
    if why and readers and "translation" in options.cases:
        raise InputError(
            f"{options.model}: {' and '.join(readers)} cannot open it, because {why}; "
            "train a model that can be exported, or choose --cases training or --peers none"
        )


def encoded_pairs(
    translator: Translator, pairs: Sequence[tuple[str, str]], to: str | None
) -> list[tuple[list[int], list[int]]]:
    """Token ids of the pairs, without pairs that are empty or too long on a side.

    Raises:
        InputError: where none is left, and for a language that is missing or unknown to the model.
    """
    task = translator.task
    sources = task.encode_sources([source for source, _ in pairs], to)
    targets = task.target_tokenizer.encode_batch([target for _, target in pairs])
    kept = [pair for pair in zip(sources, targets, strict=True) if all(0 < len(side) <= LONGEST for side in pair)]
    if not kept:
        raise InputError(f"none of the {len(pairs)} pairs has 1 to {LONGEST} tokens on each side; give other pairs")
    return kept


def _shape(translator: Translator) -> dict[str, Any]:
    config = translator.model.config
    names = ("width", "heads", "feedforward_width", "encoder_layers", "decoder_layers", "norm")
    sizes = {name: getattr(config, name) for name in names}
    return {"type": "transformer", "vocabulary": config.target_vocabulary, "dropout": 0.1} | sizes


def _spoken(translator: Translator) -> str:
    config = translator.model.config
    return (
        f"{config.encoder_layers}+{config.decoder_layers} layers of width {config.width}, {config.heads} heads, "
        f"feed-forward {config.feedforward_width}, {config.norm}-norm, {config.target_vocabulary:,} pieces, tied"
    )


def training(options: Options, sizes: Sizes, measured: Measured, encoded: list[tuple[list[int], list[int]]]) -> Contest:
    """Complete updates on the same sentences in the same order."""
    from regard.data.batching import Batches
    from regard.data.token_store import TokenStore

    folder, size = measured.folder, measured.translator.model.config.target_vocabulary
    wanted = (options.rounds + 1) * sizes.updates

    def batched(rows: list[tuple[list[int], list[int]]]) -> list[np.ndarray]:
        lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in rows])
        return Batches(lengths, maximum_tokens=sizes.batch_tokens, seed=SEED).epoch(0)

    batches = batched(encoded)
    while len(batches) < wanted:  # one epoch must suffice: the order of a second would differ from the peer's
        encoded = encoded * 2
        batches = batched(encoded)
    TokenStore.write(folder / "train", {"source": size, "target": size}, encoded)
    job = {
        "kind": "training",
        "shape": measured.shape,
        "changes": measured.changes,
        "updates": sizes.updates,
        "learning_rate": 5e-4,
        "betas": [0.9, 0.98],
        "label_smoothing": 0.1,
        "clip_norm": 1.0,
    }
    own = job | {
        "folder": str(folder / "model"),
        "store": str(folder / "train"),
        "batch_tokens": sizes.batch_tokens,
        "seed": SEED,
    }
    theirs = job | {"batches": [[[encoded[i][side] for i in rows] for side in (0, 1)] for rows in batches[:wanted]]}
    about = f"{measured.spoken}; dropout 0.1; batches of {sizes.batch_tokens // 2:,} tokens a side, Adam, label smoothing 0.1"
    return Contest(
        name=f"{measured.name}training",
        about=about,
        unit="target tokens/s",
        ours=tuple(
            Contestant(name=precision, library=OURS, job=own | {"precision": precision})
            for precision in TRAINING_PRECISIONS
        ),
        peers=tuple(
            Contestant(name=f"{peer} {precision}", library=peer, job=theirs | {"precision": precision})
            for peer in TRAINING_PEERS
            if peer in options.peers
            for precision in TRAINING_PRECISIONS
        ),
        best=True,
    )


def translation(
    options: Options, sizes: Sizes, measured: Measured, encoded: list[tuple[list[int], list[int]]]
) -> Contest:
    """Beam search with the same sentences in the same batches."""
    translator = measured.translator
    tokenizer, config = translator.task.target_tokenizer, translator.model.config
    chosen = sorted(encoded[: sizes.sentences], key=lambda pair: len(pair[0]))
    batches = [chosen[start : start + sizes.batch_sentences] for start in range(0, len(chosen), sizes.batch_sentences)]
    # With random weights the end is arbitrary: answers of a batch all get the average length of its references.
    forced = options.model is None
    lengths = [round(sum(len(target) for _, target in batch) / len(batch)) if forced else 0 for batch in batches]
    job = {
        "kind": "translation",
        "folder": str(measured.folder / "model"),
        "shape": measured.shape,
        "batches": [[source for source, _ in batch] for batch in batches],
        "lengths": lengths,
        "beam": sizes.beam,
        "extra": sizes.extra,
        "end_id": config.end_id,
        "pieces": tokenizer.tokens(range(tokenizer.size)),
        "threads": options.threads,
    }
    how = (
        "random weights, every answer as long as the references of its batch on average"
        if forced
        else "trained weights"
    )
    return Contest(
        name=f"{measured.name}translation",
        about=f"{measured.spoken}; {how}; beam {sizes.beam}, batches of {sizes.batch_sentences}",
        unit="target tokens/s",
        ours=tuple(
            Contestant(name=precision, library=OURS, job=job | {"precision": precision})
            for precision in measured.precisions
        ),
        peers=tuple(
            Contestant(name=f"{peer} {precision}", library=peer, job=job | {"precision": precision})
            for peer, precisions in measured.peers.items()
            if peer in options.peers
            for precision in precisions
        ),
        best=True,
    )


# Generated pairs of texts, for measuring without any data.


_ONSETS = [*"bcdfghklmnprstvw", "br", "dr", "fl", "gr", "kl", "pr", "sch", "st", "tr"]
_RHYMES = [*"aeiou", "an", "ar", "el", "en", "er", "in", "is", "on", "or", "um"]


def builtin_pairs(count: int, *, seed: int = 0, words: int = 12_000) -> list[tuple[str, str]]:
    """Sentences of invented words, paired with the same sentences in other invented words in reverse order.

    Word frequencies fall as 1 / rank, as in a language (Zipf), and sentences have 4 to 24 words, 12 on average, as captions do.
    Speed depends on the number of tokens and the size of the vocabulary, not on the content.

    Arguments:
        count: number of pairs.
        seed: the same seed gives the same pairs.
        words: number of words in each of the two languages.

    >>> builtin_pairs(2, words=50) == builtin_pairs(3, words=50)[:2]
    True
    """
    draw = np.random.default_rng(seed)
    languages = [_words(words, draw) for _ in range(2)]
    summed = np.cumsum(1 / np.arange(1, words + 1))
    pairs = []
    for _ in range(count):
        length = int(np.clip(draw.poisson(12), 4, 24))
        chosen = np.searchsorted(summed, summed[-1] * draw.random(length))
        source, target = ([language[index] for index in chosen] for language in languages)
        pairs.append((" ".join(source) + ".", " ".join(target[::-1]) + "."))
    return pairs


def _words(count: int, draw: np.random.Generator) -> list[str]:
    """Different words of one or more syllables, short ones first."""
    found: dict[str, None] = {}
    syllables = 1
    while len(found) < count:
        before = len(found)
        onsets = draw.integers(len(_ONSETS), size=(count, syllables)).tolist()
        rhymes = draw.integers(len(_RHYMES), size=(count, syllables)).tolist()
        for starts, ends in zip(onsets, rhymes, strict=True):
            found["".join(_ONSETS[a] + _RHYMES[b] for a, b in zip(starts, ends, strict=True))] = None
        if len(found) - before < count // 2:  # most words with that number of syllables are used up
            syllables += 1
    return list(found)[:count]
