"""`regard export`: the model of a run by itself, and what it refuses."""

from __future__ import annotations

import getpass
import json
import random
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import regard
from regard.parts import PARTS

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"
WORDS = ("red", "green", "blue", "cat", "dog", "sits", "runs")
SECRET = "dog sits blue blue runs cat"
BERT: dict[str, Any] = {"name": "bert", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 1, "dropout": 0.1}
TRAINING: dict[str, Any] = {
    "steps": 6,
    "batch_tokens": 300,
    "learning_rate": 2e-2,
    "warmup": 1,
    "precision": "float32",
    "evaluate_every": 2,
    "save_every": 2,
}
PARTS_OF_MODELS = {
    "README.md",
    "config.json",
    "model.safetensors",
    "regard.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that classified texts of a file at an absolute path; not to be changed."""
    home = tmp_path_factory.mktemp("home") / "zdenka-q"
    home.mkdir()
    draw = random.Random(4)
    texts = [" ".join(draw.choice(WORDS) for _ in range(5)) for _ in range(60)] + [SECRET]
    (home / "mails.tsv").write_text("".join(f"{'animal' if 'cat' in text else 'none'}\t{text}\n" for text in texts))
    recipe = {
        "task": "classification",
        "model": BERT,
        "data": {"train": str(home / "mails.tsv"), "label": 0, "text": 1},
        "tokenizer": {"kind": "bert", "size": 60},
        "training": TRAINING,
    }
    regard.train(recipe, output=home / "run")
    return home / "run"


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def told(folder: Path, words: list[str]) -> list[str]:
    """The files and words of which one holds the other."""
    return [
        f"{path.name}: {word}"
        for path in sorted(folder.rglob("*"))
        for word in words
        if path.is_file() and word.encode() in path.read_bytes()
    ]


def test_only_what_predicting_needs_is_written_and_answers_as_before(run, command, tmp_path):
    answer = command("export", run, tmp_path / "given", "--json")
    assert answer.code == 0, answer.err
    said = json.loads(answer.out)
    assert set(said["files"]) == names(tmp_path / "given") == PARTS_OF_MODELS
    assert said["bytes"] == sum(path.stat().st_size for path in (tmp_path / "given").iterdir())
    assert (said["task"], said["notes"]) == ("classification", [])
    before, after = regard.load(run), regard.load(tmp_path / "given")
    for name, tensor in before.model.state_dict().items():
        assert torch.equal(tensor, after.model.state_dict()[name]), name
    for text in ("cat runs", SECRET):
        assert after.classify(text) == before.classify(text)
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "given").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "given")
    logits = theirs(**tokenizer("cat runs", return_tensors="pt")).logits.detach()
    ours = before.classify("cat runs")
    assert theirs.config.id2label[int(logits.argmax())] == ours.label
    assert float(logits.softmax(-1).max()) == pytest.approx(max(ours.probabilities.values()), rel=1e-5)


def test_no_file_tells_of_texts_paths_user_or_machine(run, command, tmp_path):
    words = [SECRET, str(run.parent), "zdenka-q", str(tmp_path), str(Path.cwd()), str(Path.home()) + "/"]
    words += [f"/{getpass.getuser()}/", socket.gethostname()]
    assert "mails.tsv" in (run / "recipe.yaml").read_text()
    assert told(run, ["zdenka-q"])  # the run itself has to know where its data is
    # a card of the time when it still told paths
    old = tmp_path / "old"
    shutil.copytree(run, old)
    for name in ("regard.json", "README.md"):
        text = (old / name).read_text()
        assert '"mails.tsv"' in text
        (old / name).write_text(text.replace('"mails.tsv"', json.dumps(str(run.parent / "mails.tsv"))))
    for source in (run, old):
        command("export", source, tmp_path / "given")
        assert told(tmp_path / "given", words) == []
        assert json.loads((tmp_path / "given" / "regard.json").read_text())["recipe"]["data"]["train"] == "mails.tsv"


def test_a_checkpoint_can_be_chosen(run, command, tmp_path):
    pointers = json.loads((run / "checkpoints.json").read_text())
    for asked in ("best", "last", pointers["last"]):
        exported = regard.export(run, tmp_path / asked, checkpoint=asked)
        wanted = regard.load(run / "checkpoints" / pointers.get(asked, asked)).model.state_dict()
        found = regard.load(exported.folder).model.state_dict()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    sentence = command("export", run, tmp_path / "no", "--checkpoint", "lst").refusal()
    assert "has no checkpoint 'lst'; did you mean 'last'?" in sentence
    sentence = command("export", tmp_path / "best", tmp_path / "no", "--checkpoint", "last").refusal()
    assert "has no checkpoints" in sentence
    assert not (tmp_path / "no").exists()


def test_a_model_is_replaced_and_nothing_else(run, command, tmp_path):
    given = tmp_path / "given"
    assert command("export", run, given).code == 0
    (given / "words.txt").write_text("of before")
    assert command("export", run, given).code == 0
    assert names(given) == PARTS_OF_MODELS
    (given / "notes.md").write_text("mine")
    assert "notes.md, which is not part of a model" in command("export", run, given).refusal()
    project = tmp_path / "project"
    (project / "source").mkdir(parents=True)
    (project / "source" / "main.py").write_text("mine")
    (project / "README.md").write_text("mine")
    assert "is not a model's folder" in command("export", run, project).refusal()
    assert names(project) == {"README.md", "source/main.py"}
    (tmp_path / "file").write_text("mine")
    assert "is a file" in command("export", run, tmp_path / "file").refusal()
    for place in (run, run / "source", run / "checkpoints" / "given", run.parent):
        before = names(run.parent)
        assert "one is inside the other" in command("export", run, place).refusal()
        assert names(run.parent) == before
    assert "no such folder" in command("export", tmp_path / "nothing", tmp_path / "new").refusal()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_run_gives_nothing(run, command, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert "checksum differs" in command("export", broken, tmp_path / "given").refusal()
    assert not (tmp_path / "given").exists()


def test_adapters_are_merged(run, tmp_path):
    texts = [(" ".join((one, other)), one) for one in WORDS[:3] for other in WORDS] * 2
    recipe = {
        "task": "classification",
        "model": {"pretrained": str(run)},
        "adapters": {"rank": 2, "on": ["query", "inner"]},
        "data": {},
        "training": TRAINING,
    }
    adapted = regard.train(recipe, output=tmp_path / "adapted", data=texts)
    exported = regard.export(adapted.folder, tmp_path / "given")
    assert set(exported.files) == PARTS_OF_MODELS
    assert told(tmp_path / "given", ["zdenka-q", str(tmp_path)]) == []
    before, after = adapted.load(), regard.load(tmp_path / "given")
    assert after.classify("green dog") == before.classify("green dog")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "given").eval()
    inputs = AutoTokenizer.from_pretrained(tmp_path / "given")("green dog", return_tensors="pt")
    assert theirs.config.id2label[int(theirs(**inputs).logits.argmax())] == before.classify("green dog").label


def test_code_of_ones_own_goes_with_the_model(command, tmp_path, monkeypatch):
    monkeypatch.setattr(PARTS, "_parts", dict(PARTS._parts))
    file = tmp_path / "mine.py"
    file.write_text(
        "import regard.parts\nfrom regard.attention import Dot\n\n\n"
        "@regard.parts.score('mirrored')\nclass Mirrored(Dot):\n"
        "    def forward(self, query, key, inputs=None):\n        return -super().forward(query, key, inputs)\n"
    )
    recipe = {
        "model": {"name": "bahdanau", "embedding_width": 4, "hidden_width": 6, "attention_width": 5, "maxout_width": 4}
        | {"score": "mirrored"},
        "data": {},
        "tokenizer": {"kind": "character", "size": 20},
        "training": {**TRAINING, "steps": 2},
    }
    pairs = [(word, word[::-1]) for word in ("ab", "abc", "bca", "cab", "ba", "bbc") * 5]
    regard.train(recipe, output=tmp_path / "run", data=pairs, code=file)
    before = regard.load(tmp_path / "run").translate("abc").text
    answer = command("export", tmp_path / "run", tmp_path / "given", "--code", file)
    assert "code/mine.py: a copy of your own code" in answer.err
    said = json.loads((tmp_path / "given" / "regard.json").read_text())["code"]["score"]["mirrored"]
    assert said == json.loads((tmp_path / "run" / "regard.json").read_text())["code"]["score"]["mirrored"]
    assert (tmp_path / "given" / said["copy"]).read_bytes() == file.read_bytes()
    assert told(tmp_path / "given", [str(tmp_path)]) == []
    assert regard.load(tmp_path / "given").translate("abc").text == before
    monkeypatch.setattr(PARTS, "_parts", {})
    with pytest.raises(regard.InputError, match=r"needs the score 'mirrored' of mine\.py"):
        regard.load(tmp_path / "given")
    with pytest.raises(regard.InputError, match=r"needs the score 'mirrored' of mine\.py"):
        regard.export(tmp_path / "run", tmp_path / "other")


@pytest.mark.slow
def test_a_graph_in_onnx_stands_beside_the_weights(command, tmp_path):
    pytest.importorskip("onnxscript")
    answer = command("export", GOLDEN / "bert", tmp_path / "model", "--format", "onnx", "--json")
    assert answer.code == 0, answer
    assert "model.onnx: onnxruntime computes the same as the model" in answer.err
    assert "model.onnx" in json.loads(answer.out)["files"]
    assert command("check", tmp_path / "model").code == 0
    before, after = regard.load(GOLDEN / "bert"), regard.load(tmp_path / "model")
    assert after.classify("the old dog") == before.classify("the old dog")
    assert command("export", GOLDEN / "bert", tmp_path / "model").code == 0  # replaced, as any model
    assert not (tmp_path / "model" / "model.onnx").exists()
