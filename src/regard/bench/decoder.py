"""The suite `decoder`: reading prompts and generating text with a GPT-2 or a Llama, and training a GPT-2."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.bench.rounds import OURS, Contest, Contestant, Options
from regard.errors import InputError, nearest

PRECISIONS = ("float32", "bfloat16", "int8", "int4")
"""Regard's precisions; the outputs of all are compared with those of the first."""

PEER_PRECISIONS = {
    "huggingface": ("float32", "bfloat16"),
    "ctranslate2": ("float32", "int8", "bfloat16"),
    "llamacpp": ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_0 pure"),
}
"""The precisions of each peer that decodes, in its own terms."""

SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        model: a GPT-2's config.
        llama: a Llama's config, for `--shape smollm2-135m`.
        prompt: tokens of each prompt.
        tokens: generated after it.
        together: number of prompts in the case `batch`.
        reading: tokens of the prompt in the case `prompt`, after which one token is written.
        batch: (texts, tokens) of an update.
        updates: in one turn.
    """

    model: dict[str, int]
    llama: dict[str, Any]
    prompt: int
    tokens: int
    together: int
    reading: int
    batch: tuple[int, int]
    updates: int


SMOLLM2: dict[str, Any] = {
    "vocabulary": 49_152,
    "width": 576,
    "heads": 9,
    "key_heads": 3,
    "feedforward_width": 1536,
    "layers": 30,
    "maximum_positions": 8192,
    "rotary_base": 100_000.0,
    "tied_output": True,
}
FULL = Sizes(
    model={"vocabulary": 50_257},
    llama=SMOLLM2,
    prompt=32,
    tokens=96,
    together=8,
    reading=512,
    batch=(4, 512),
    updates=1,
)
_QUICK_SHAPE = {"vocabulary": 2000, "layers": 4, "maximum_positions": 128, "end_id": 1999, "padding_id": 1999}
QUICK = Sizes(
    model=_QUICK_SHAPE | {"width": 128, "heads": 4, "feedforward_width": 512},
    llama=_QUICK_SHAPE | {"width": 128, "heads": 4, "key_heads": 2, "feedforward_width": 384},
    prompt=16,
    tokens=48,
    together=4,
    reading=64,
    batch=(4, 64),
    updates=2,
)
"""Large enough for a turn to take tens of milliseconds, so that it can be compared with another run's."""


SHAPES = ("gpt2-small", "smollm2-135m")
"""Shapes of models with random weights."""


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; their files are written into `folder`.

    Raises:
        InputError: for a model that is neither a GPT-2 nor a Llama, and for an unknown shape.
    """
    if options.shape is not None and options.shape not in SHAPES:
        raise InputError(f"--shape is {options.shape!r}; {nearest(options.shape, SHAPES)}")
    sizes = QUICK if options.quick else FULL
    found = []
    works = {
        "alone": (1, sizes.prompt, sizes.tokens),
        "batch": (sizes.together, sizes.prompt, sizes.tokens),
        "prompt": (1, sizes.reading, 1),  # several times in a turn, which is too short else
    }
    if works.keys() & set(options.cases):
        place, what = _model(options, sizes, folder)
        found += [_decoding(case, work, options, place, what) for case, work in works.items() if case in options.cases]
    if "training" in options.cases:
        found.append(_training(options, sizes))
    return found


def _model(options: Options, sizes: Sizes, folder: Path) -> tuple[Path, str]:
    """A folder with a decoder for all contestants, and its description: the user's model, or random weights."""
    from regard.checkpoints import parameters_of, read_model, write_model
    from regard.models import GPT2, GPT2Config, Llama, LlamaConfig
    from regard.tasks.loading import model_folder

    place = folder / "decoder"
    place.mkdir()
    model: Any
    if options.model is not None:
        if options.shape is not None:
            raise InputError("--shape is for random weights, and --model names a model; leave one of them out")
        model, name = read_model(model_folder(options.model)), options.model.name
        if not isinstance(model, GPT2 | Llama):
            raise InputError(
                f"{options.model}: a {type(model).__name__}, and the decoders are compared on a GPT-2 or a Llama"
            )
    else:
        llama = options.shape == "smollm2-135m"
        model = Llama(LlamaConfig(**sizes.llama)) if llama else GPT2(_config(GPT2Config, sizes))
        name = f"random weights of the shape of {options.shape}" if options.shape else "random weights"
        generator = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in model.parameters():
                if (
                    parameter.dim() > 1
                ):  # larger than initial weights, so that outputs depend on more than the last token
                    parameter.normal_(std=0.05, generator=generator)
    write_model(place, model.config, parameters_of(model), task={"name": "language_modelling"}, recipe={}, metrics={})
    config = model.config
    key_heads = getattr(config, "key_heads", None)
    heads = f"{config.heads} heads" + (f", {key_heads} key heads" if key_heads not in (None, config.heads) else "")
    return place, f"{name}, {config.layers} layers of width {config.width}, {heads}, {config.vocabulary:,} pieces"


def _config(kind: Any, sizes: Sizes) -> Any:
    return kind(**sizes.model) if len(sizes.model) > 1 else kind.small(**sizes.model)


def _decoding(case: str, work: tuple[int, int, int], options: Options, place: Path, what: str) -> Contest:
    """Greedy search after prompts: their number, the tokens of each, and the tokens that are written after each."""
    from regard.checkpoints import read_config

    together, prompt, tokens = work

    config: Any = read_config(place)
    generator = torch.Generator().manual_seed(SEED)
    prompts = torch.randint(config.vocabulary - 1, (together, prompt), generator=generator).tolist()
    job = {
        "kind": "decoding",
        "times": 6 if case == "prompt" else 1,
        "folder": str(place),
        "prompts": prompts,
        "tokens": tokens,
        "end_id": config.end_id,
        "vocabulary": config.vocabulary,
        "threads": options.threads,
    }

    def contestant(name: str, library: str, precision: str) -> Contestant:
        return Contestant(name=name, library=library, job=job | {"precision": precision})

    chosen = [(peer, precision) for peer in options.peers for precision in PEER_PRECISIONS.get(peer, ())]
    return Contest(
        name=case,
        about=f"{what}; {together} prompt{'s' if together > 1 else ''} of {prompt} tokens, {tokens} written "
        "after each, the most probable one each time",
        unit="tokens/s" if case != "prompt" else "prompts/s",
        ours=tuple(contestant(precision, OURS, precision) for precision in PRECISIONS),
        peers=tuple(contestant(f"{peer} {precision}", peer, precision) for peer, precision in chosen),
        best=True,
    )


def _training(options: Options, sizes: Sizes) -> Contest:
    from regard.models import GPT2Config

    config = _config(GPT2Config, sizes)
    texts, length = sizes.batch
    generator = torch.Generator().manual_seed(SEED)
    ids = torch.randint(config.vocabulary, (sizes.updates, texts, length + 1), generator=generator)
    job = {
        "kind": "causal_training",
        "model": sizes.model,
        "batches": ids.tolist(),
        "updates": sizes.updates,
        "learning_rate": 1e-4,
        "dropout": 0.1,
    }

    def contestant(name: str, library: str, precision: str) -> Contestant:
        return Contestant(name=name, library=library, job=job | {"precision": precision})

    peers = ("huggingface",) if "huggingface" in options.peers else ()
    return Contest(
        name="training",
        about=f"GPT-2, {config.layers} layers of width {config.width}, {config.vocabulary:,} pieces, dropout 0.1; batches of "
        f"{texts} texts of {length} tokens, AdamW",
        unit="tokens/s",
        ours=tuple(contestant(precision, OURS, precision) for precision in ("bfloat16", "float32")),
        peers=tuple(
            contestant(f"{peer} {precision}", peer, precision)
            for peer in peers
            for precision in ("float32", "bfloat16")
        ),
        best=True,
        measures=("peak memory, MB",),
    )
