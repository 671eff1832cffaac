"""`regard check`: whole folders, damaged ones, and who opens what."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    CONFIG_MAPPING,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    OPTConfig,
    OPTForCausalLM,
)

import regard
from regard.checking import Report, check
from regard.checkpoints.layouts import FORMATS, hf_format
from regard.cli.main import main
from regard.data.token_store import TokenStore
from regard.word_embeddings import WordVectors
from regard.word_embeddings.files import write_vectors

WORDS = ("red", "green", "blue", "cat", "dog", "sits", "runs")
BERT: dict[str, Any] = {"name": "bert", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 1, "dropout": 0.1}
TRAINING = {
    "steps": 4,
    "batch_tokens": 300,
    "learning_rate": 2e-2,
    "warmup": 1,
    "precision": "float32",
    "save_every": 2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that classified texts; not to be changed."""
    draw = random.Random(4)
    texts = [" ".join(draw.choice(WORDS) for _ in range(5)) for _ in range(60)]
    recipe = {
        "task": "classification",
        "model": BERT,
        "data": {},
        "tokenizer": {"kind": "bert", "size": 60},
        "training": TRAINING,
    }
    folder = tmp_path_factory.mktemp("run") / "run"
    regard.train(recipe, output=folder, data=[(text, "animal" if "cat" in text else "none") for text in texts])
    return folder


@pytest.fixture(scope="module")
def model(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its model; not to be changed."""
    folder = tmp_path_factory.mktemp("model") / "model"
    regard.export(run, folder)
    return folder


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recurrent translator with two tokenizers; not to be changed."""
    recipe = {
        "model": {"name": "cho", "embedding_width": 4, "hidden_width": 6, "maxout_width": 4},
        "data": {},
        "tokenizer": {"kind": "character", "size": 20, "shared": False},
        "training": TRAINING | {"steps": 1},
    }
    place = tmp_path_factory.mktemp("translator")
    regard.train(recipe, output=place / "run", data=[(word, word.upper()) for word in WORDS * 3])
    regard.export(place / "run", place / "model")
    return place / "model"


def states(report: Report) -> dict[str, str]:
    return {file.path: file.state for file in report.files}


def wrong(report: Report) -> set[str]:
    return {file.path for file in report.files if file.wrong}


def test_a_whole_model_is_as_recorded_file_by_file(model, capsys):
    assert main(["check", str(model), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    there = {path.name for path in model.iterdir()}
    assert {file["path"]: (file["state"], file["digest"]) for file in said["files"]} == {
        name: ("present", "no digest recorded" if name == "regard.json" else "as recorded") for name in there
    }
    assert (said["kind"], said["whole"], said["task"], said["refusal"]) == ("model", True, "classification", None)
    assert said["readers"] == {
        "Regard": "classification",
        "transformers": "BertForSequenceClassification",
        "CTranslate2": "ct2-transformers-converter, without a head",
        "vLLM": "BertForSequenceClassification",
        "text-embeddings-inference": "classes of texts",
    }
    assert main(["check", str(model)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == ["whole", "yes"]
    assert any(line.split(maxsplit=1)[0] == "vocab.txt" and line.endswith("present, as recorded") for line in lines)


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "model.safetensors"]
)
def test_a_bit_that_changed_and_a_file_that_is_gone_are_told(name, model, tmp_path, capsys):
    broken = shutil.copytree(model, tmp_path / "broken")
    flip(broken / name)
    report = check(broken)
    assert wrong(report) == {name}
    assert states(report)[name] == "damaged"
    assert next(file.digest for file in report.files if file.path == name) != "as recorded"
    (broken / name).unlink()
    assert main(["check", str(broken)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[:2] == ["whole", "no:"]
    assert name in lines[-1]
    assert states(check(broken))[name] == "missing"


def test_what_does_no_harm_leaves_a_folder_whole(model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    (folder / "README.md").write_text("my own words")
    (folder / "notes.md").write_text("mine")
    (folder / "old.bin").write_bytes(b"\x80")
    (folder / "nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe")
    report = check(folder)
    assert report.whole
    found = {file.path: (file.state, file.digest, file.remark) for file in report.files}
    assert found["README.md"] == ("present", "another than recorded", "")
    assert found["notes.md"][0] == "unexpected"
    assert found["old.bin"][2] == "a pickle, which is never read"
    assert found["nowhere"][2] == "a link to nothing"
    assert found["pipe"][2] == "a pipe, not a regular file"
    (folder / "README.md").unlink()
    assert check(folder).whole


def test_tokenizers_in_folders_and_the_layout_that_no_other_program_opens(translator, tmp_path):
    report = check(translator)
    assert {"source/tokenizer.json", "target/tokenizer.json"} <= states(report).keys()
    assert report.readers == {"Regard": "translation", "only Regard": "no other library has the family cho"}
    broken = shutil.copytree(translator, tmp_path / "broken")
    (broken / "target" / "tokenizer.json").unlink()
    assert wrong(check(broken)) == {"target/tokenizer.json"}
    card = broken / "regard.json"
    card.write_text(card.read_text().replace('"files"', '"lies"'))  # as folders of before
    report = check(broken)
    assert wrong(report) == {"target/tokenizer.json"}
    assert next(file.digest for file in report.files if file.path == "source/tokenizer.json") == "no digest recorded"


def test_folders_of_transformers(tmp_path):
    config = BertConfig(
        vocab_size=12,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path / "bert")
    report = check(tmp_path / "bert")
    assert not report.task
    assert "vocab.txt" in report.refusal
    (tmp_path / "bert" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + "\n".join(WORDS) + "\n")
    report = check(tmp_path / "bert")
    assert report.whole, report.rows()
    assert report.readers == {
        "Regard": "classification",
        "transformers": "BertForSequenceClassification",
        "CTranslate2": "ct2-transformers-converter, without a head",
        "vLLM": "BertForSequenceClassification",
    }
    assert (
        "text-embeddings-inference does not open it: id2label, label2id missing in config.json, no tokenizer.json"
        in (report.notes)
    )
    small = OPTConfig(vocab_size=12, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8)
    OPTForCausalLM(small).save_pretrained(tmp_path / "opt", max_shard_size="1KB")
    report = check(tmp_path / "opt")
    assert report.readers == {"transformers": "OPTForCausalLM"}
    assert "model_type is 'opt'" in report.refusal
    assert report.whole, report.rows()
    shard = next((tmp_path / "opt").glob("model-00002*"))
    shard.write_bytes(shard.read_bytes()[:-3])
    assert wrong(check(tmp_path / "opt")) == {shard.name}
    shard.unlink()
    assert states(check(tmp_path / "opt"))[shard.name] == "missing"


def test_a_run_with_its_checkpoints_and_data(run, tmp_path):
    report = check(run)
    assert report.whole, report.rows()
    assert (report.kind, report.task) == ("run", "classification")
    found = {file.path: (file.state, file.digest) for file in report.files}
    on_disk = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert on_disk == found.keys()
    assert found["checkpoints/step-00000004/optimizer.safetensors"] == ("present", "as recorded")
    assert found["checkpoints/step-00000004/model.safetensors"] == ("present", "as recorded")
    assert found["README.md"] == ("present", "as recorded")


DAMAGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "recipe.yaml": (lambda run: (run / "recipe.yaml").write_text("a: [1"), {"recipe.yaml"}),
    "log.jsonl": (lambda run: (run / "log.jsonl").write_text('{"step": 1}\n{"st\n{}\n'), {"log.jsonl"}),
    "checkpoints.json": (lambda run: (run / "checkpoints.json").write_text("[]"), {"checkpoints.json"}),
    "no pointer": (lambda run: (run / "checkpoints.json").unlink(), {"checkpoints.json"}),
    "no checkpoint": (
        lambda run: shutil.rmtree(run / "checkpoints" / "step-00000004"),
        {"checkpoints/step-00000004/"},
    ),
    "optimizer": (
        lambda run: flip(run / "checkpoints/step-00000004/optimizer.safetensors"),
        {"checkpoints/step-00000004/optimizer.safetensors"},
    ),
    "tokens": (lambda run: flip_ids(run / "data/train/text.bin"), {"data/train/text.bin"}),
    "offsets": (lambda run: (run / "data/train/text.offsets.bin").unlink(), {"data/train/text.offsets.bin"}),
    "no data": (lambda run: shutil.rmtree(run / "data"), {"data/"}),
    "model": (lambda run: (run / "config.json").unlink(), {"config.json"}),
}


def flip_ids(path: Path) -> None:
    """Ids that no vocabulary of this size has."""
    ids = np.fromfile(path, "<u2")
    ids[1] = 60_000
    ids.tofile(path)


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_of_a_run_is_told_by_its_file(name, run, tmp_path):
    broken = shutil.copytree(run, tmp_path / "run")
    damage, files = DAMAGES[name]
    damage(broken)
    report = check(broken)
    assert not report.whole
    assert files <= wrong(report), report.rows()
    assert len(wrong(report)) <= 2


def test_leftovers_and_a_removed_optimizer_are_no_damage(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "checkpoints/step-00000004/optimizer.safetensors").unlink()
    (folder / "checkpoints" / ".partial-1").mkdir()
    (folder / "checkpoints" / "my-copy").mkdir()
    report = check(folder)
    assert report.whole, report.rows()
    found = {file.path: (file.state, file.remark) for file in report.files}
    assert found["checkpoints/step-00000004/optimizer.safetensors"] == ("missing", "removed when the run had ended")
    assert found["checkpoints/.partial-1/"] == ("unexpected", "left by a process that was killed")
    assert found["checkpoints/my-copy/"][0] == "unexpected"


def test_vectors_tokens_and_an_index(tmp_path):
    vectors = tmp_path / "vectors"
    write_vectors(WordVectors(words=("a", "b"), matrix=np.eye(2, dtype=np.float32)), vectors)
    report = check(vectors)
    assert (report.kind, report.whole, set(states(report))) == (
        "vectors",
        True,
        {"regard.json", "words.txt", "vectors.npy"},
    )
    assert report.readers["Regard"] == "word embeddings"
    assert "regard vectors convert" in report.readers["gensim"]
    (vectors / "vectors.npy").write_bytes((vectors / "vectors.npy").read_bytes()[:-4])
    assert wrong(check(vectors)) == {"vectors.npy"}
    np.save(vectors / "vectors.npy", np.array([[1, np.nan], [0, 1]], dtype=np.float32))
    assert wrong(check(vectors)) == {"vectors.npy"}
    (vectors / "words.txt").unlink()
    assert "words.txt" in wrong(check(vectors))

    store = tmp_path / "store"
    TokenStore.write(store, {"text": 10}, [([1, 2, 3],), ([4],)])
    report = check(store)
    assert (report.kind, report.whole) == ("tokens", True)
    assert {(file.state, file.digest) for file in report.files} == {("present", "as recorded")}
    flip(store / "text.bin")  # to an id that the vocabulary has
    assert wrong(check(store)) == {"text.bin"}
    (store / "text.bin").write_bytes(b"\0")
    assert wrong(check(store)) == {"text.bin"}
    (store / "store.json").write_text("{")
    assert wrong(check(store)) >= {"store.json"}


def test_an_index_and_the_texts_that_changed_since(model, tmp_path, capsys):
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "one.txt").write_text("red cat\n\nblue dog\n")
    (texts / "two.txt").write_text("green dog sits\n")
    assert main(["search", str(model), str(texts), "cat"]) == 0
    report = check(texts)
    assert (report.kind, report.whole) == ("index", True)
    assert states(report) == {".regard-index.safetensors": "present", "one.txt": "present", "two.txt": "present"}
    (texts / "one.txt").write_text("red\n")
    (texts / "two.txt").unlink()
    report = check(texts)
    assert report.whole
    remarks = {file.path: file.remark for file in report.files}
    assert remarks["one.txt"] == "changed since; the next search indexes it again"
    assert remarks["two.txt"] == "the next search leaves it out"
    index = texts / ".regard-index.safetensors"
    index.write_bytes(index.read_bytes()[:-4])
    assert wrong(check(texts)) == {".regard-index.safetensors"}
    assert main(["check", str(texts)]) == 1
    capsys.readouterr()


def test_what_is_no_folder_of_ours_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for place, said in (("file", "is a file"), ("nothing", "no such folder"), (".", "holds nothing that Regard")):
        assert main(["check", str(tmp_path / place)]) == 2
        assert said in capsys.readouterr().err


def test_damage_is_told_and_never_raised(run, tmp_path):
    """Any bytes in any file: a report, and never another exception; the seed is fixed."""
    draw = random.Random(8)
    names = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    for trial in range(40):
        broken = shutil.copytree(run, tmp_path / str(trial))
        name = draw.choice(names)
        path = broken / name
        content = path.read_bytes()
        way = draw.randrange(4)
        if way == 0:
            path.write_bytes(content[: draw.randrange(len(content) + 1)])
        elif way == 1:
            path.write_bytes(draw.randbytes(len(content)))
        elif way == 2:
            path.write_bytes(b'{"a": ' * 3000)
        else:
            path.write_bytes(b"[1, null, {}]")
        report = check(broken)
        json.dumps(report.to_mapping())
        shutil.rmtree(broken)


@pytest.mark.parametrize("name", ["bert", "gpt2", "reformer", "t5-text-to-text", "transformer", "vit"])
def test_info_and_check_and_the_card_name_the_same_programs(name, tmp_path, capsys):
    folder = Path(__file__).parents[1] / "golden" / "folders" / name
    converted = "CTranslate2" in check(folder).readers
    assert converted == (name not in ("reformer", "vit"))
    assert main(["info", str(folder)]) == 0
    assert ("CTranslate2 converts" in capsys.readouterr().out) == converted
    regard.load(folder).save(tmp_path / "again")
    card = (tmp_path / "again" / "README.md").read_text()
    if name not in ("bert", "vit"):  # those of models that write
        assert ("CTranslate2 converts" in card) == converted
        assert ("AutoModelForCausalLM" in card) == (name in ("gpt2", "reformer"))


@pytest.mark.parametrize(
    ("name", "more", "opens"),
    [("t5-text-to-text", 3, True), ("gpt2", 3, False), ("transformer", 3, False), ("bert", 3, True), ("gpt2", 0, True)],
)
def test_a_table_with_more_rows_than_tokens_is_converted_where_the_converter_fills_up(name, more, opens, tmp_path):
    """Its loaders of T5 and BERT name the rows beyond the tokenizer, those of GPT-2 and Marian refuse them."""
    converters = pytest.importorskip("ctranslate2.converters")
    shutil.copytree(Path(__file__).parents[1] / "golden" / "folders" / name, tmp_path / "model")
    (tmp_path / "model" / "regard.json").unlink()
    file = tmp_path / "model" / "config.json"
    values = json.loads(file.read_text())
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    rows = values["vocab_size"]
    for key, tensor in tensors.items():
        for axis in range(tensor.dim()):
            if more and tensor.shape[axis] == rows:
                shape = [more if place == axis else size for place, size in enumerate(tensor.shape)]
                tensors[key] = torch.cat([tensor, torch.zeros(shape)], dim=axis)
    save_file(tensors, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    counts = {key: rows + more for key in ("vocab_size", "decoder_vocab_size") if key in values}
    file.write_text(json.dumps(values | counts))
    assert ("CTranslate2" in check(tmp_path / "model").readers) == opens
    with contextlib.nullcontext() if opens else pytest.raises(ValueError, match="ocabulary"):
        converters.TransformersConverter(str(tmp_path / "model")).convert(str(tmp_path / "converted"))


def test_a_folder_of_span_corruption_is_converted_once_its_tokenizer_is_named(tmp_path):
    """Without a tokenizer_config.json transformers makes a tokenizer of 100 sentinels, more than the model has rows."""
    converters = pytest.importorskip("ctranslate2.converters")
    before, after = Path(__file__).parents[1] / "golden" / "folders" / "t5-span-corruption", tmp_path / "model"
    assert "CTranslate2" not in check(before).readers
    regard.load(before).save(after)
    assert "CTranslate2" in check(after).readers
    assert len(AutoTokenizer.from_pretrained(after)) == regard.load(after).task.tokenizer.size
    converters.TransformersConverter(str(after)).convert(str(tmp_path / "converted"))


def test_what_is_converted_is_what_the_converter_takes():
    converters = pytest.importorskip("ctranslate2.converters.transformers")
    converted = {kind for kind in FORMATS if hf_format(kind).converted}
    takes = {CONFIG_MAPPING[kind].__name__ in converters._MODEL_LOADERS for kind in converted}
    # It takes any of Llama's type, GPT-NeoX and RoBERTa, and leaves out biases and another activation without a word.
    left_out = {"gpt_neox", "llama", "mistral", "qwen2", "qwen3", "roberta", "xlm-roberta"}
    others = FORMATS.keys() - converted - left_out
    leaves = {CONFIG_MAPPING[kind].__name__ in converters._MODEL_LOADERS for kind in others}
    assert (takes, leaves) == ({True}, {False})
