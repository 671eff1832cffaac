"""The models of `regard serve --demo`: trained once, in less than a minute, and kept in the user's cache.

    ~/.cache/regard/demo/   chat-DIGEST/, dates-DIGEST/

The digest covers everything that a model is trained from, so that a changed recipe is trained again.
"""

from __future__ import annotations

import hashlib
import json
import random
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import regard
from regard.embeddings import packaged
from regard.errors import InputError
from regard.files import own_cache, scratch_folder
from regard.reading import read_text
from regard.training.callbacks import Callback
from regard.training.recipe import recipe_file

TOWNS = {
    "Ada": "Oslo",
    "Ben": "Rome",
    "Cleo": "Lima",
    "Dan": "Cairo",
    "Eva": "Kyoto",
    "Finn": "Paris",
    "Gus": "Quito",
    "Hana": "Delhi",
}
PETS = ("a cat", "a dog", "a bird", "a fish")
EXCHANGES = (
    ("hello", "Hello! Ask me about Ada, Ben, Cleo, Dan, Eva, Finn, Gus or Hana."),
    ("who are you?", "A small network that has read some lines."),
    *((f"where does {name} live?", f"{name} lives in {town}.") for name, town in TOWNS.items()),
    *((f"who lives in {town}?", f"{name} does.") for name, town in TOWNS.items()),
    *((f"does {name} have a pet?", f"Yes, {name} has {PETS[at % 4]}.") for at, name in enumerate(TOWNS)),
)
"""All exchanges that the chat model is trained on."""

TEMPLATE = (
    "{% for message in messages %}{% if message.role not in ('user', 'assistant') %}"
    "{{ raise_exception('this small model knows the roles user and assistant alone') }}{% endif %}"
    "<{{ message.role }}>\n{{ message.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}"
)
CHAT: Mapping[str, Any] = {
    "task": "language_modelling",
    "seed": 1,
    "model": {
        "name": "llama",
        "width": 64,
        "layers": 2,
        "heads": 4,
        "feedforward_width": 160,
        "maximum_positions": 512,
    },
    "data": {"length": 128},
    "tokenizer": {"kind": "byte_bpe", "size": 400},
    "training": {
        "steps": 700,
        "batch_tokens": 1000,
        "learning_rate": 3e-3,
        "schedule": "cosine",
        "warmup": 20,
        "precision": "float32",
        "evaluate_every": 700,
        "save_every": 700,
    },
}
NAMES = ("chat", "dates", "vectors")
"""The models' names; the studio opens with the first. The last exists only where the package that carries it is installed."""

DATES = (
    "data.dates.size=20000",
    "data.dates.validation_size=500",
    "data.dates.languages=[en,fr,de,es]",
    "training.steps=350",
    "training.evaluate_every=350",
    "training.save_every=350",
)
"""The settings that differ from `recipes/dates.yaml`, so that training takes half a minute."""


def conversations(count: int = 3000) -> list[str]:
    r"""Conversations of one or two exchanges, in the format of the chat template.

    >>> conversations(1)
    ['<user>\ndoes Ada have a pet?\n<assistant>\nYes, Ada has a cat.']
    """
    draw = random.Random(1)
    return [
        "\n".join(
            f"<user>\n{question}\n<assistant>\n{answer}"
            for question, answer in draw.sample(EXCHANGES, draw.choice((1, 1, 1, 2)))
        )
        for _ in range(count)
    ]


def models(say: Callable[[str], None], callbacks: Sequence[Callback] = ()) -> dict[str, str]:
    """The folders of the demonstration's models by name; models that are not in the cache are trained.

    They are `chat`, a language model trained on a few lines; `dates`, which translates dates as people write them into ISO dates;
    and `vectors`, a published sentence encoder, where the package that carries it is installed.

    Arguments:
        say: called with sentences that report progress.
        callbacks: for training, such as its progress bar.

    Raises:
        InputError: without a cache folder that belongs to this user alone, without `babel`, and where the disk is full.
        Stopped: on SIGINT or SIGTERM while a model is trained; an unfinished model is removed.
    """
    cache = own_cache("demo")
    if cache is None:
        raise InputError(
            "the demonstration's models are kept in regard/demo of the cache (XDG_CACHE_HOME, else ~/.cache), which has no "
            "folder there that belongs to this user alone; set XDG_CACHE_HOME to a folder of yours"
        )
    recipe, texts = recipe_file("dates"), conversations()
    made = {
        "chat": ([CHAT, TEMPLATE, texts], lambda run: _train_chat(run, texts, callbacks)),
        "dates": (
            [read_text(recipe, "install regard again"), DATES],
            lambda run: regard.train(recipe, DATES, output=run, callbacks=callbacks),
        ),
    }
    folders = {}
    for name, (by, train) in made.items():
        digest = hashlib.sha256(json.dumps(by).encode()).hexdigest()[:12]
        folder = cache / f"{name}-{digest}"
        if not folder.is_dir():
            say(f"training {name} for the demonstration, once; it is kept in {folder}")
            with scratch_folder(cache, ".training-") as scratch:
                train(scratch / "run")
                regard.load(scratch / "run").save(folder)
        folders[name] = str(folder)
    try:
        folders["vectors"] = str(packaged())
    except InputError as error:
        say(f"no sentence encoder: {error}")
    return folders


def _train_chat(run: Path, texts: Sequence[str], callbacks: Sequence[Callback]) -> None:
    regard.train(CHAT, output=run, data=texts, callbacks=callbacks)
    (run / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


def calls(url: str, names: Sequence[str], *, key: str = "", trusted: bool = True) -> list[str]:
    """Shell commands that send a request to each model.

    Arguments:
        url: of the server.
        names: of the models that it serves.
        key: the API key as the shell is to see it, such as `$REGARD_API_KEY`; empty without a key.
        trusted: whether curl trusts the server's certificate; a demonstration's is usually self-signed.

    >>> print(*calls("http://127.0.0.1:8000", ["dates"]))
    curl http://127.0.0.1:8000/models/dates -H 'Content-Type: application/json' -d '{"inputs": "May 9th, 2017"}'
    """
    asked: dict[str, tuple[str, Mapping[str, Any]]] = {
        "chat": (
            "/v1/chat/completions",
            {"model": "chat", "messages": [{"role": "user", "content": "where does Eva live?"}], "temperature": 0},
        ),
        "dates": ("/models/dates", {"inputs": "May 9th, 2017"}),
        "vectors": (
            "/models/vectors/pipeline/sentence-similarity",
            {"inputs": {"source_sentence": "A cat sat.", "sentences": ["A kitten sat.", "Stocks fell."]}},
        ),
    }
    more = ("" if trusted else " --insecure") + (f' -H "Authorization: Bearer {key}"' if key else "")
    return [
        f"curl {shlex.quote(url + path)} -H 'Content-Type: application/json'{more} -d {shlex.quote(json.dumps(body))}"
        for name, (path, body) in asked.items()
        if name in names
    ]
