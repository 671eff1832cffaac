"""`regard embed`: vectors on standard output and in files, a kill and a Ctrl-C in between, and bad input."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.cli.console import envelope
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer
from regard.training.precision import better_precision

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "mat", "road", "old", "green"]


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory) -> Path:
    """The folder of a small encoder with random weights; not to be changed."""
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, kind="bert", size=80, lowercase=True)
    task = SentenceEmbeddingTask(tokenizer=tokenizer, maximum_length=32)
    sizes = {"width": 16, "heads": 2, "feedforward_width": 24, "layers": 4, "maximum_positions": 32, "init_std": 0.2}
    folder = tmp_path_factory.mktemp("encoder") / "model"
    SentenceEncoder(Bert(BertConfig(**sizes, **task.model_settings())), task).save(folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture(scope="module")
def lines() -> list[str]:
    draw = np.random.default_rng(4)
    return [" ".join(draw.choice(WORDS, draw.integers(0, 30))) for _ in range(700)]


@pytest.fixture
def file(tmp_path, lines) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_line_for_each_text(command, encoder_folder):
    said = command("embed", encoder_folder, "the cat", "", "--dtype", "float32")
    assert said.code == 0
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [each["text"] for each in found] == ["the cat", ""]
    wanted = regard.load(encoder_folder).embed(["the cat", ""])
    assert np.array_equal(np.array([each["vector"] for each in found], dtype=np.float32), wanted)
    assert (
        json.loads(command("embed", encoder_folder, "the cat", "dog", "--json").out)["embeddings"][1]["text"] == "dog"
    )
    assert json.loads(command("embed", encoder_folder, "--json", stdin=b"").out) == envelope("embed") | {
        "embeddings": []
    }
    assert command("embed", encoder_folder, stdin=b"cat\n\ndog\n").out.count("\n") == 3


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_files_hold_a_row_for_each_line(command, encoder_folder, file, lines, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"vectors{ending}"
    said = command("embed", encoder_folder, "--input", file, "--output", output, "--dtype", "float32")
    assert (said.code, said.out) == (0, "")
    assert said.err.endswith("700 vectors of 16 numbers\n")
    if ending == ".npy":
        found = np.load(output, allow_pickle=False)
    elif ending == ".jsonl":
        found = np.array([json.loads(line)["vector"] for line in output.read_text().splitlines()], dtype=np.float32)
    else:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(output)
        assert table["text"].to_pylist() == lines
        found = np.array(table["vector"].to_pylist(), dtype=np.float32)
    assert np.array_equal(found, regard.load(encoder_folder).embed(lines))


def test_packed_input_and_a_summary_in_json(command, encoder_folder, file, tmp_path, lines):
    packed = tmp_path / "lines.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    said = command("embed", encoder_folder, "-i", packed, "-o", tmp_path / "v.npy", "--json", "--dtype", "float32")
    assert json.loads(said.out) == envelope("embed") | {
        "output": str(tmp_path / "v.npy"),
        "rows": 700,
        "dim": 16,
        "dtype": "float32",
    }


def test_poolings_and_layers(command, encoder_folder):
    plain = regard.load(encoder_folder)

    def vector(*words):
        said = command("embed", encoder_folder, "the old cat", "--dtype", "float32", *words)
        assert said.code == 0, said
        return np.array(json.loads(said.out)["vector"], dtype=np.float32)

    assert vector("--pooling", "cls,max").shape == (32,)
    assert vector("--layers", "concatenate-last-four").shape == (64,)
    assert np.linalg.norm(vector("--raw")) != pytest.approx(1.0, abs=1e-3)
    assert np.linalg.norm(vector("--normalise")) == pytest.approx(1.0, abs=1e-5)
    summed = vector("--layers", "1,2", "--raw")
    rows = plain.features(["the old cat"], layers=[1, 2])[0].array
    assert not np.allclose(summed, rows.mean(axis=0), atol=1e-3), "the special tokens are among those pooled"
    np.testing.assert_allclose(vector("--layers", "-1"), vector(), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "int8"])
def test_dtypes(command, encoder_folder, dtype):
    said = command("embed", encoder_folder, "the old cat", "--dtype", dtype)
    found = np.array(json.loads(said.out)["vector"], dtype=np.float32)
    assert found @ regard.load(encoder_folder).embed(["the old cat"])[0] > 0.99
    better = better_precision(dtype, torch.device("cpu"))  # int8 is the slower where bfloat16 is native
    assert ("dtype:" in said.err) == (dtype == "auto" or bool(better))
    assert better in said.err


def started_and_stopped(process, stop: int, output: Path, *words) -> tuple[int, int, str]:
    """Run until some rows are safe, then send a signal; returns the exit code, the rows, and what was said."""
    notes = output.with_name(output.name + ".partial.json")
    with process("embed", *words, "--output", output) as running:
        until = time.monotonic() + 60
        while time.monotonic() < until and running.poll() is None:
            if notes.is_file() and json.loads(notes.read_text())["rows"] > 0:
                running.send_signal(stop)
                break
            time.sleep(0.002)
        said = running.stderr.read().decode()
        code = running.wait(60)
    return code, json.loads(notes.read_text())["rows"] if notes.is_file() else -1, said


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_bytes(
    process, command, encoder_folder, tmp_path, lines, monkeypatch, stop
):
    many = tmp_path / "many.txt"
    many.write_text("\n".join(lines * 14) + "\n")
    words = (encoder_folder, "--input", many, "--dtype", "float32")
    output = tmp_path / "vectors.npy"
    code, done, said = started_and_stopped(process, stop, output, *words)
    if code == 0:
        pytest.skip("the run was through before it could be stopped")
    assert 0 < done < len(lines) * 14
    assert not output.exists()
    if stop == signal.SIGINT:
        assert code == 130
        assert f"interrupted after {done:,} texts; give the same command again" in said
    again = command("embed", *words, "--output", output)
    assert again.code == 0
    assert f"continuing after {done:,} texts" in again.err
    assert np.load(output, mmap_mode="r").shape == (len(lines) * 14, 16)
    whole = tmp_path / "whole.npy"
    assert command("embed", *words, "--output", whole).code == 0
    assert output.read_bytes() == whole.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["many.txt", "vectors.npy", "whole.npy"]


def test_another_setting_is_another_run(command, encoder_folder, file, tmp_path):
    output = tmp_path / "v.npy"
    (tmp_path / "v.npy.partial").write_bytes(b"x" * 128)
    notes = {"origin": {"model": "other"}, "rows": 0, "bytes": 128}
    (tmp_path / "v.npy.partial.json").write_text(json.dumps(notes))
    refusal = command("embed", encoder_folder, "-i", file, "-o", output).err
    assert "was begun with another" in refusal
    assert "remove it and v.npy.partial.json" in refusal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cat", "--output", "v.txt"], "cannot be written to a file that ends in '.txt'"),
        (["cat", "--pooling", "meen"], "did you mean 'mean'"),
        (["cat", "--layers", "lst"], "did you mean 'last'"),
        (["cat", "--layers", "9"], "layer 9 does not exist in a model with 4 layers"),
        (["cat", "--layers", "all"], "sum or concatenate"),
        (["cat", "--dtype", "float8"], "did you mean"),
        (["cat", "--prompt", "query"], "the model has no prompt 'query'"),
        (["cat", "--input", "lines.txt"], "give one of them"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(command, encoder_folder, words, message):
    said = command("embed", encoder_folder, *words)
    assert said.code == 2
    assert message in said.err.splitlines()[-1]
    assert "Traceback" not in said.err


def test_files_that_are_no_text(command, encoder_folder, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text("cat\n" + "x" * 10_000_000 + "\n")
    said = command("embed", encoder_folder, "-i", long, "-o", tmp_path / "v.npy")
    assert said.code == 2
    assert "line 2" in said.err
    null = tmp_path / "null.txt"
    null.write_bytes(b"cat\nd\0g\n" + b"dog\n" * 9)
    assert "NUL character" in command("embed", encoder_folder, "-i", null).err


def test_help_shows_an_example(command):
    assert "regard embed path/to/minilm --input sentences.txt --output vectors.npy" in command("embed", "--help").out
