"""The suite `recurrent`: training and translating with Bahdanau's and Luong's models, and training an LSTM language model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.bench import translation
from regard.bench.rounds import OURS, Contest, Contestant, Options
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.models import BahdanauConfig, LuongConfig
    from regard.tasks import Translator

PRECISIONS = ("float32", "bfloat16")
SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        translation: vocabulary, batches and beam of the translation models; its sizes of a Transformer are not used.
        embedding: width of token embeddings.
        hidden: width of hidden states.
        maxout: outputs of Bahdanau's maxout layer; with 384 the model has as many parameters as JoeyNMT's.
        luong_layers: LSTM layers in the encoder and in the decoder.
        language: the language model's config; the paper's medium model by default.
        batch: (texts, tokens) of one of its updates.
        updates: of it in one turn.
    """

    translation: translation.Sizes
    embedding: int = 256
    hidden: int = 512
    maxout: int = 384
    luong_layers: int = 2
    language: dict[str, Any] = field(default_factory=lambda: {"vocabulary": 10_000})
    batch: tuple[int, int] = (20, 35)
    updates: int = 4


FULL = Sizes(translation=translation.Sizes(updates=2, sentences=32))
QUICK = Sizes(
    translation=translation.QUICK,
    embedding=8,
    hidden=16,
    maxout=8,
    language={"vocabulary": 50, "embedding_width": 16, "hidden_width": 16},
    batch=(2, 5),
    updates=1,
)


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; their files are written into `folder`.

    Raises:
        InputError: where a model is given, since weights are random here, and for pairs of which none is usable.
    """
    if options.model is not None:
        raise InputError("the suite recurrent measures models with random weights; leave out --model")
    sizes = QUICK if options.quick else FULL
    found = []
    if {"training", "translation"} & set(options.cases):
        pairs = options.pairs
        if pairs is None:
            pairs = translation.builtin_pairs(sizes.translation.pairs, seed=SEED)
        for kind in (_bahdanau, _luong):
            measured = kind(pairs, sizes, folder)
            encoded = translation.encoded_pairs(measured.translator, pairs, options.to)
            if "training" in options.cases:
                found.append(translation.training(options, sizes.translation, measured, encoded))
            if "translation" in options.cases:
                found.append(translation.translation(options, sizes.translation, measured, encoded))
    if "language" in options.cases:
        found.append(_language(options, sizes))
    return found


def _bahdanau(pairs: Any, sizes: Sizes, folder: Path) -> translation.Measured:
    from regard.models import Bahdanau, BahdanauConfig

    config = {"attention_width": sizes.hidden, "maxout_width": sizes.maxout}
    return _measured("bahdanau", Bahdanau, BahdanauConfig, config, {"rnn_type": "gru"}, pairs, sizes, folder)


def _luong(pairs: Any, sizes: Sizes, folder: Path) -> translation.Measured:
    from regard.models import Luong, LuongConfig

    config = {"layers": sizes.luong_layers}
    theirs = {"rnn_type": "lstm", "layers": sizes.luong_layers}
    return _measured("luong", Luong, LuongConfig, config, theirs, pairs, sizes, folder)


def _measured(
    name: str,
    model: Any,
    kind: type[BahdanauConfig | LuongConfig],
    config: dict[str, int],
    theirs: dict[str, Any],
    pairs: Any,
    sizes: Sizes,
    folder: Path,
) -> translation.Measured:
    from regard.tasks.translation import TranslationTask, Translator
    from regard.text import Tokenizer

    tokenizer = Tokenizer.train(
        (text for pair in pairs for text in pair), kind="bpe", size=sizes.translation.vocabulary
    )
    task = TranslationTask(tokenizer, tokenizer)
    settings: dict[str, Any] = {**task.model_settings(), **config}
    translator: Translator = Translator(
        model(kind(embedding_width=sizes.embedding, hidden_width=sizes.hidden, **settings)), task
    )
    place = folder / name
    place.mkdir()
    translator.save(place / "model")
    own = sum(parameter.numel() for parameter in translator.model.parameters())
    return translation.Measured(
        translator=translator,
        folder=place,
        name=f"{name} ",
        spoken=f"embeddings of {sizes.embedding}, states of {sizes.hidden}, {tokenizer.size:,} pieces, "
        f"ours has {own / 1e6:.1f} million parameters",
        shape={
            "type": "recurrent",
            "attention": name,
            "embedding": sizes.embedding,
            "hidden": sizes.hidden,
            "layers": 1,
            "vocabulary": tokenizer.size,
            "dropout": 0.1,
            **theirs,
        },
        changes={"dropout": 0.1},
        peers={"joeynmt": PRECISIONS},
        precisions=translation.PRECISIONS,
    )


def _language(options: Options, sizes: Sizes) -> Contest:
    from regard.models import LSTMLanguageModelConfig

    config = LSTMLanguageModelConfig(**sizes.language)
    texts, length = sizes.batch
    generator = torch.Generator().manual_seed(SEED)
    ids = torch.randint(config.vocabulary, (sizes.updates, texts, length + 1), generator=generator)
    job = {
        "kind": "lstm_training",
        "model": {
            name: getattr(config, name)
            for name in ("vocabulary", "embedding_width", "hidden_width", "layers", "dropout")
        },
        "batches": ids.tolist(),
        "updates": sizes.updates,
        "learning_rate": 1e-3,
    }

    def contestant(name: str, library: str, precision: str) -> Contestant:
        return Contestant(name=name, library=library, job=job | {"precision": precision})

    peers = ("pytorch",) if "pytorch" in options.peers else ()
    return Contest(
        name="language",
        about=f"LSTM language model, {config.layers} layers of width {config.hidden_width}, {config.vocabulary:,} words, "
        f"dropout {config.dropout}; batches of {texts} texts of {length} tokens, AdamW",
        unit="tokens/s",
        ours=tuple(contestant(precision, OURS, precision) for precision in PRECISIONS),
        peers=tuple(contestant(f"{peer} {precision}", peer, precision) for peer in peers for precision in PRECISIONS),
        best=True,
    )
