"""`regard vectors extract`: the three ways, what the folder holds, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import regard
from regard.cli.vectors.training import extract
from regard.errors import InputError
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer
from regard.word_embeddings.contextual import averaged_vectors, vectors_alone
from regard.word_embeddings.files import read_vectors

SENTENCES = ["The bank lent money.", "He sat by the river bank.", "Money is in the bank."]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    tokenizer = Tokenizer.train(SENTENCES * 3, kind="bert", size=60, lowercase=True)
    task = SentenceEmbeddingTask(tokenizer=tokenizer)
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": 20, "init_std": 0.3}
    folder = tmp_path_factory.mktemp("encoder") / "model"
    SentenceEncoder(Bert(BertConfig(**sizes, **task.model_settings())), task).save(folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(f"{SENTENCES[0]} {SENTENCES[1]}\n\n{SENTENCES[2]}\n")
    return path


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(extract)
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_the_folder_holds_what_python_gives(model, text, tmp_path):
    out = tmp_path / "vectors"
    found = run(model, text, "-o", out, "--minimum-count", 1, "--lowercase", "--layers", "1", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["words"] == len(read_vectors(out))
    encoder = regard.load(model, task="sentence_embedding")
    right = averaged_vectors(encoder, SENTENCES, layers=1, minimum_count=1, lowercase=True)
    kept = read_vectors(out)
    assert tuple(kept.words) == right.words
    np.testing.assert_allclose(kept.matrix, right.matrix, rtol=1e-5, atol=1e-6)
    assert kept.counts is not None
    assert kept.counts.tolist() == right.counts.tolist()  # type: ignore[union-attr]
    assert kept.metadata["sentences"] == 3
    assert len(kept.metadata["model"]) == 32


def test_words_between_spaces_and_sentences_on_lines(model, tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_text("the un-lent bank\nbank money . money\n")
    assert run(model, path, "-o", tmp_path / "v", "--minimum-count", 1, "--spaces", "--lines").exit_code == 0
    kept = read_vectors(tmp_path / "v")
    assert set(kept.words) == {"the", "un-lent", "bank", "money", "."}
    assert kept.metadata["sentences"] == 2


def test_words_alone_and_pieces(model, text, tmp_path):
    assert run(model, text, "-o", tmp_path / "a", "--how", "alone", "--minimum-count", 2).exit_code == 0
    kept = read_vectors(tmp_path / "a")
    assert set(kept.words) == {"bank", "the", "."}
    encoder = regard.load(model, task="sentence_embedding")
    np.testing.assert_allclose(kept.matrix, vectors_alone(encoder, kept.words).matrix, rtol=1e-5, atol=1e-6)
    assert run(model, "-o", tmp_path / "p", "--how", "pieces").exit_code == 0
    assert len(read_vectors(tmp_path / "p")) == encoder.task.tokenizer.size


def test_bad_input_is_told_before_anything_is_written(model, text, tmp_path):
    out = tmp_path / "v"
    for arguments, message in (
        ((model, text), "-o is missing"),
        ((model, "-o", out), "no text file"),
        ((model, text, "-o", out, "--how", "context"), "did you mean 'contexts'"),
        ((model, tmp_path / "none.txt", "-o", out), "no such file"),
        ((model, text, "-o", out, "--layers", "lats"), "did you mean 'last'"),
        ((model, text, "-o", out, "--minimum-count", 99), "lower minimum_count"),
        ((model, text, "-o", out, "--dtype", "int9"), "int8"),
    ):
        found = run(*arguments)
        assert isinstance(found.exception, InputError), found.output
        assert message in str(found.exception)
        assert not out.exists()
