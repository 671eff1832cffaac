"""A tiny trained model, and the command line in this process, in one of its own and on a terminal."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import regard
from regard.cli.main import main

RECIPE = """
model:
  {name: transformer, width: 16, heads: 2, feedforward_width: 24, encoder_layers: 1, decoder_layers: 1,
   maximum_positions: 12, dropout: 0.0}
data: {train: PAIRS, validation_size: 20}
tokenizer: {kind: character, size: 30}
training:
  {steps: 40, batch_tokens: 800, warmup: 10, learning_rate: 1e-2, precision: float32, evaluate_every: 20, save_every: 20,
   log_every: 10, evaluate_generated: 5}
generation: {maximum_length: 8}
"""


LOCATION = "model={name: luong, embedding_width: 4, hidden_width: 6, layers: 1, score: location, maximum_source: 12}"


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    def refusal(self) -> str:
        """The one sentence on standard error, where the input was refused as it ought to be."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        assert "Traceback" not in self.err
        return self.err.strip()


Command = Callable[..., Answer]


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of two to five letters and the same backwards."""
    draw = random.Random(3)
    words = ["".join(draw.choice("abcd") for _ in range(draw.randint(2, 5))) for _ in range(220)]
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return path


@pytest.fixture(scope="session")
def recipe_file(pairs_file: Path) -> Path:
    """How the tiny model is trained."""
    path = pairs_file.with_name("recipe.yaml")
    path.write_text(RECIPE.replace("PAIRS", str(pairs_file)))
    return path


@pytest.fixture(scope="session")
def model(recipe_file: Path) -> Path:
    """The folder of a trained Transformer with 12 positions; not to be changed."""
    folder = recipe_file.with_name("model")
    regard.train(recipe_file, output=folder)
    return folder


@pytest.fixture(scope="session")
def dates_model(recipe_file: Path) -> Path:
    """The folder of a recurrent model that has seen a few dates in two languages; not to be changed."""
    folder = recipe_file.with_name("dates")
    recipe = {
        "model": {
            "name": "bahdanau",
            "embedding_width": 4,
            "hidden_width": 6,
            "attention_width": 5,
            "maxout_width": 4,
        },
        "data": {"dates": {"size": 100, "validation_size": 20, "languages": ["en", "fr"]}},
        "tokenizer": {"kind": "character", "size": 200, "shared": False},
        "training": {"steps": 2, "batch_tokens": 1000, "precision": "float32"},
        "generation": {"maximum_length": 12},
    }
    regard.train(recipe, output=folder)
    return folder


@pytest.fixture(scope="session")
def sequences_model(recipe_file: Path) -> Path:
    """The folder of a recurrent model that has begun to learn to turn sequences around; not to be changed."""
    folder = recipe_file.with_name("sequences")
    recipe = {
        "model": {
            "name": "bahdanau",
            "embedding_width": 8,
            "hidden_width": 12,
            "attention_width": 8,
            "maxout_width": 6,
        },
        "data": {"sequences": {"symbols": 6, "shortest": 3, "longest": 5, "size": 200, "validation_size": 20}},
        "tokenizer": {"kind": "word", "size": 20},
        "training": {"steps": 20, "batch_tokens": 1000, "learning_rate": 1e-2, "warmup": 5, "precision": "float32"},
        "generation": {"maximum_length": 12},
    }
    regard.train(recipe, output=folder)
    return folder


@pytest.fixture(scope="session")
def unattended_model(recipe_file: Path) -> Path:
    """The folder of a model without attention; not to be changed."""
    folder = recipe_file.with_name("unattended")
    sizes = ("model={name: cho, embedding_width: 4, hidden_width: 6, maxout_width: 4}", "training.steps=2")
    regard.train(recipe_file, sizes, output=folder)
    return folder


@pytest.fixture(scope="session")
def location_model(recipe_file: Path) -> Path:
    """The folder of a Luong model with places for 12 source tokens; not to be changed."""
    folder = recipe_file.with_name("location")
    regard.train(recipe_file, [LOCATION, "training.steps=2"], output=folder)
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `regard` with some words in this process."""

    def call(*words: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def process() -> Callable[..., subprocess.Popen[bytes]]:
    """Starts `python -m regard` with some words as a process of its own."""

    def start(*words: object, **options: object) -> subprocess.Popen[bytes]:
        usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": usual}
        arguments = [sys.executable, "-m", "regard", *map(str, words)]
        # What runs in the background of a shell ignores Ctrl-C, and would hand that on.
        streams["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(arguments, **(streams | options))  # type: ignore[call-overload]

    return start


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `regard` in this process with standard error, and with `typed` standard input, on a terminal."""
    pty = pytest.importorskip("pty")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: object, typed: bytes | None = None) -> Answer:
        ours, theirs = pty.openpty()
        shown = bytearray()

        def watch() -> None:
            with contextlib.suppress(OSError):  # the other side is closed
                while part := os.read(ours, 1 << 16):
                    shown.extend(part)

        watching = threading.Thread(target=watch)
        watching.start()
        with (
            monkeypatch.context() as patch,
            open(theirs, "w", encoding="utf-8") as error,
            open(os.dup(theirs), encoding="utf-8") if typed is not None else io.StringIO() as entered,
        ):
            if typed is not None:
                os.write(ours, typed)  # waits in the terminal until it is read
            for name, stream in (("stdin", entered), ("stdout", io.StringIO()), ("stderr", error)):
                patch.setattr(sys, name, stream)
            code, out = main([str(word) for word in words]), sys.stdout.getvalue()  # type: ignore[attr-defined]
        watching.join(60)
        os.close(ours)
        return Answer(code, out, shown.decode())

    return call
