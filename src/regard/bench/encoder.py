"""The suite `encoder`: sentence embeddings, and training BERT on masked text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.bench.rounds import OURS, Contest, Contestant, Options
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding import SentenceEncoder

PRECISIONS = ("bfloat16", "float32", "int8")
"""Regard's precisions."""

PEER_PRECISIONS = ("float32", "bfloat16")
"""The peers' precisions, their default first."""

GRAPHS = {"onnxruntime": ("float32", "int8"), "openvino": ("float32", "bfloat16", "int8")}
"""Runtimes that read the encoder as ONNX, and their precisions."""

SEED = 1
WORDS = 8
"""The fewest words of a sentence that is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        sentences: embedded in one turn.
        compared: the number of them whose embeddings are compared with those in float32.
        embedder: the config of a model with random weights, used where no trained one is available.
        pieces: the size of its vocabulary.
        trained: the config of the model that is trained.
        batch: (texts, tokens) of an update.
        updates: in one turn.
    """

    sentences: int
    compared: int
    embedder: dict[str, int]
    pieces: int
    trained: dict[str, int]
    batch: tuple[int, int]
    updates: int


FULL = Sizes(
    sentences=2_000,
    compared=200,
    embedder={"width": 384, "heads": 12, "feedforward_width": 1536, "layers": 6},
    pieces=8_000,
    trained={"vocabulary": 30_522, "width": 768, "heads": 12, "feedforward_width": 3072, "layers": 12},
    batch=(32, 128),  # BERT's own had 256 texts; with very few, the optimizer takes a larger share
    updates=1,
)
QUICK = Sizes(
    sentences=12,
    compared=12,
    embedder={"width": 16, "heads": 2, "feedforward_width": 24, "layers": 2},
    pieces=300,
    trained={"vocabulary": 50, "width": 16, "heads": 2, "feedforward_width": 24, "layers": 2},
    batch=(2, 16),
    updates=1,
)


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; their files are written into `folder`.

    Raises:
        InputError: for a model that is no text encoder.
    """
    sizes = QUICK if options.quick else FULL
    found = []
    if "embedding" in options.cases:
        found.append(_embedding(options, sizes, folder))
    if "training" in options.cases:
        found.append(_training(options, sizes))
    if "fine-tuning" in options.cases:
        found.append(_fine_tuning(options, sizes))
    return found


def sentences() -> Iterator[str]:
    """The sentences of Python's reference with at least `WORDS` words, without duplicates, in the order of its topics."""
    from regard.data.running_text import python_docs

    seen = set()
    for split in ("train", "validation", "test"):
        for topic in python_docs(split):
            for paragraph in re.split(r"\n\s*\n", topic):
                for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z\"'(])", " ".join(paragraph.split())):
                    if len(sentence.split()) >= WORDS and sentence not in seen:
                        seen.add(sentence)
                        yield sentence


def _embedding(options: Options, sizes: Sizes, folder: Path) -> Contest:
    chosen = [sentence for sentence, _ in zip(sentences(), range(sizes.sentences), strict=False)]
    place, encoder, what = _encoder(options, sizes, folder)
    tokens = np.array([len(ids) for ids in encoder.task.encode(chosen, maximum=encoder.maximum_length)])
    np.save(folder / "vectors.npy", encoder.embed(chosen[: sizes.compared], precision="float32"), allow_pickle=False)
    job = {"kind": "embedding", "folder": str(place), "sentences": chosen, "vectors": str(folder / "vectors.npy")}

    def contestant(name: str, library: str, precision: str) -> Contestant:
        return Contestant(name=name, library=library, job=job | {"precision": precision})

    peers = ("sentence_transformers",) if "sentence_transformers" in options.peers else ()
    graphs = {name: precisions for name, precisions in GRAPHS.items() if name in options.peers}
    job |= {"threads": options.threads, "maximum": encoder.maximum_length}
    if graphs and (place / "tokenizer.json").is_file() and _exports():
        from regard.checkpoints.onnx import write_onnx

        write_onnx(encoder.model, folder / "model.onnx")
        job["onnx"] = str(folder / "model.onnx")
    else:
        graphs = {}
    return Contest(
        name="embedding",
        about=f"{what}; {len(chosen):,} sentences of Python's reference, {tokens.mean():.0f} tokens each",
        unit="sentences/s",
        ours=tuple(contestant(precision, OURS, precision) for precision in PRECISIONS),
        peers=tuple(
            contestant(f"{peer} {precision}", peer, precision) for peer in peers for precision in PEER_PRECISIONS
        )
        + tuple(
            Contestant(
                name=f"{graph} {precision}",
                library=graph,
                job=job | {"kind": f"embedding_{graph}", "precision": precision},
            )
            for graph, precisions in graphs.items()
            for precision in precisions
        ),
        best=True,
        measures=("peak memory, MB",),
    )


def _exports() -> bool:
    """Whether the libraries that export ONNX are installed; the runtimes may be in other interpreters."""
    return all(util.find_spec(name) is not None for name in ("onnx", "onnxruntime", "onnxscript"))


def _encoder(options: Options, sizes: Sizes, folder: Path) -> tuple[Path, SentenceEncoder, str]:
    """The model's folder, the model, and its description: the user's, the packaged one, or random weights."""
    from regard.checkpoints import read_config
    from regard.embeddings import packaged
    from regard.models import MODELS, BertConfig, DistilBertConfig
    from regard.tasks.loading import load, model_folder
    from regard.tasks.sentence_embedding import SentenceEncoder
    from regard.tasks.sentence_task import SentenceEmbeddingTask
    from regard.text import Tokenizer

    place, name = (None, "") if options.model is None else (model_folder(options.model), options.model.name)
    if place is None and not options.quick:
        try:
            place, name = packaged(), "all-MiniLM-L6-v2"
        except InputError:  # not installed: random weights of the same shape are as fast
            place = None
    if place is not None:
        config = read_config(place)
        if not isinstance(config, BertConfig | DistilBertConfig):
            raise InputError(f"{name}: a {config.model_type}, and the encoders are compared on a BERT or DistilBERT")
        encoder = load(place, task="sentence_embedding")
        return place, encoder, f"{name}, {_shape(encoder.model.config)}"
    tokenizer = Tokenizer.train(sentences(), kind="bert", size=sizes.pieces, lowercase=True)
    task = SentenceEmbeddingTask(tokenizer=tokenizer, maximum_length=256)
    config = MODELS["bert"].config(**sizes.embedder, **task.model_settings(), init_std=0.05)
    encoder = SentenceEncoder(MODELS["bert"].model(config), task)
    encoder.save(folder / "model")
    return folder / "model", encoder, f"random weights, {_shape(config)}, {tokenizer.size:,} pieces"


def _training(options: Options, sizes: Sizes) -> Contest:
    texts, length = sizes.batch
    size = sizes.trained["vocabulary"]
    draw = np.random.default_rng(SEED)
    batches = []
    for _ in range(4):
        ids = draw.integers(5, size, (texts, length))
        masked = np.sort(draw.choice(texts * length, max(1, round(0.15 * texts * length)), replace=False))
        batches.append({"ids": ids.tolist(), "places": masked.tolist(), "labels": ids.reshape(-1)[masked].tolist()})
    job: dict[str, Any] = {
        "kind": "masked_training",
        "model": dict(sizes.trained),
        "batches": batches,
        "updates": sizes.updates,
        "mask": 4,
        "learning_rate": 1e-4,
    }

    about = f"{size:,} pieces, on masked text; {texts} texts of {length} tokens, 15 % masked"
    return _training_contest("training", about, options, sizes, job)


def _fine_tuning(options: Options, sizes: Sizes) -> Contest:
    texts, longest = sizes.batch
    draw = np.random.default_rng(SEED)
    batches = []
    for _ in range(4):
        lengths = draw.integers(max(2, longest // 8), longest // 2 + 1, texts)  # lengths as of sentences to classify
        ids = [draw.integers(5, sizes.trained["vocabulary"], length).tolist() for length in lengths]
        batches.append({"texts": ids, "labels": draw.integers(2, size=texts).tolist()})
    job = {
        "kind": "fine_tuning",
        "model": dict(sizes.trained),
        "batches": batches,
        "updates": sizes.updates,
        "learning_rate": 2e-5,
    }

    about = f"with a head of two classes; {texts} texts of {max(2, longest // 8)} to {longest // 2} tokens, padded to the longest"
    return _training_contest("fine-tuning", about, options, sizes, job)


def _training_contest(name: str, about: str, options: Options, sizes: Sizes, job: dict[str, Any]) -> Contest:
    """Updates of a BERT, ours in bfloat16, compared with those of transformers in each precision."""

    def contestant(name: str, library: str, precision: str) -> Contestant:
        return Contestant(name=name, library=library, job=job | {"precision": precision})

    peers = ("huggingface",) if "huggingface" in options.peers else ()
    return Contest(
        name=name,
        about=f"BERT of {sizes.trained['layers']} layers, width {sizes.trained['width']}, {about}, dropout 0.1, AdamW",
        unit="tokens/s",
        ours=(contestant("bfloat16", OURS, "bfloat16"),),
        peers=tuple(
            contestant(f"{peer} {precision}", peer, precision) for peer in peers for precision in PEER_PRECISIONS
        ),
        measures=("peak memory, MB",),
    )


def _shape(config: Any) -> str:
    return f"{config.layers} layers of width {config.width}, {config.heads} heads"
