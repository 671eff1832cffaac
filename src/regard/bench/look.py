"""The suite `look`: the cost of recording the attention of a model of BERT-base's shape, and of a page that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.bench.rounds import OURS, Contest, Contestant, Options

SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        model: fields of a BERT configuration.
        recorded: (batch, tokens) of the forward passes that are recorded.
        pages: (tokens, layers) of the texts that pages are made of; None for all layers.
        passes: forward passes in one turn.
    """

    model: Mapping[str, int]
    recorded: tuple[tuple[int, int], ...]
    pages: tuple[tuple[int, int | None], ...]
    passes: int = 1


BASE = Sizes(
    model={
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 2048,
        "vocab_size": 30522,
    },
    recorded=((8, 512), (2, 2048)),
    pages=((128, None), (512, None), (2048, 1)),
)
QUICK = Sizes(
    model={
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 32,
        "vocab_size": 50,
    },
    recorded=((2, 16),),
    pages=((8, None),),
)


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; pages are written into `folder`."""
    sizes = QUICK if options.quick else BASE
    found = []
    if "recording" in options.cases:
        found += [_recording(options, sizes, *shape) for shape in sizes.recorded]
    if "page" in options.cases:
        found += [_page(options, sizes, folder, *shape) for shape in sizes.pages]
    return found


def _recording(options: Options, sizes: Sizes, batch: int, tokens: int) -> Contest:
    job = {"kind": "recording", "model": dict(sizes.model), "batch": batch, "tokens": tokens, "seed": SEED}
    job |= {"passes": sizes.passes}

    def ours(name: str, addresses: list[str] | None) -> Contestant:
        return Contestant(name=name, library=OURS, job=job | {"addresses": addresses})

    peers = []
    if "huggingface" in options.peers:
        for name, way in (("not looking", "sdpa"), ("eager, all weights", "eager")):
            peers.append(Contestant(name=f"huggingface {name}", library="huggingface", job=job | {"way": way}))
    return Contest(
        name=f"recording {batch}x{tokens}",
        about=f"{_spoken(sizes)}; {batch} rows of {tokens} tokens, forward pass, float32",
        unit="tokens/s",
        measures=("peak memory, MB",),
        ours=(ours("one layer", ["encoder.layer.0.*"]), ours("all layers", None)),
        peers=tuple(peers),
    )


def _page(options: Options, sizes: Sizes, folder: Path, tokens: int, layers: int | None) -> Contest:
    chosen = sizes.model["num_hidden_layers"] if layers is None else layers
    job = {"kind": "page", "model": dict(sizes.model), "batch": 1, "tokens": tokens, "seed": SEED, "layers": chosen}
    job |= {"file": str(folder / "ours.html")}
    peers = ()
    if "bertviz" in options.peers:
        theirs = job | {"file": str(folder / "bertviz.html")}
        peers = (Contestant(name="bertviz head_view", library="bertviz", job=theirs),)
    return Contest(
        name=f"page of {tokens} tokens",
        about=f"{_spoken(sizes)}; {chosen} layers, from the text to the written page",
        unit="s",
        measures=("peak memory, MB", "file, MB"),
        ours=(Contestant(name="page", library=OURS, job=job),),
        peers=peers,
        higher_is_better=False,
    )


def _spoken(sizes: Sizes) -> str:
    model = sizes.model
    return (
        f"BERT of {model['num_hidden_layers']} layers, width {model['hidden_size']}, {model['num_attention_heads']} heads, "
        "random weights"
    )
