"""Parts of the user's own: from a file, from an installed package, from a decorator; in recipes, folders and commands."""

from __future__ import annotations

import hashlib
import json
import sys
import textwrap
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import regard
from regard import parts
from regard.attention import ScaledDot, ScoredAttention
from regard.cli.main import main
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import MODELS, BahdanauConfig, LuongConfig, Transformer, TransformerConfig
from regard.models.bahdanau import alignment_layer

CODE = textwrap.dedent(
    """
    from dataclasses import dataclass
    from typing import ClassVar

    import torch
    from torch import nn

    import regard.parts
    from regard.attention import Alignment, Score, ScoredAttention, Dot
    from regard.models import USEAveraging, USEAveragingConfig


    @regard.parts.score("distance")
    class Distance(Score):
        def __init__(self, width):
            super().__init__()
            self.sharpness = nn.Parameter(torch.full((width,), 0.5))

        def forward(self, query, key, inputs=None):
            apart = query.unsqueeze(-2) - key.unsqueeze(-3)
            return -(self.sharpness * apart.square()).sum(dim=-1)


    @regard.parts.alignment("rectified")
    class Rectified(Alignment):
        distribution = False

        def forward(self, scores, visible, inputs):
            if visible is None:
                return scores.relu() / scores.shape[-1]
            count = visible.expand_as(scores).sum(dim=-1, keepdim=True).clamp_min(1)
            return scores.relu().masked_fill(~visible, 0.0) / count


    @regard.parts.mechanism("plain")
    class Plain(ScoredAttention):
        def __init__(self):
            super().__init__(Dot())


    @dataclass(frozen=True, kw_only=True, slots=True)
    class MineConfig(USEAveragingConfig):
        model_type: ClassVar[str] = "mine"


    @regard.parts.model(config=MineConfig, interface="text_vectors")
    class Mine(USEAveraging):
        pass


    @regard.parts.metric("recall_of_ham", task="classification")
    def recall_of_ham(answers, references):
        mine = [answer == "ham" for answer, right in zip(answers, references) if right == "ham"]
        return sum(mine) / max(1, len(mine))


    @regard.parts.reader("bars")
    def bars(path):
        for line in path.read_text(encoding="utf-8").splitlines():
            label, text = line.split("|")
            yield text, label
    """
)
BAHDANAU = {"name": "bahdanau", "embedding_width": 6, "hidden_width": 7, "attention_width": 5, "maxout_width": 4}
WORDS = ("abc", "bca", "cab", "aab", "bbc", "cca", "abb", "acc", "bcc", "aac", "cba", "bab")
PAIRS = [(word, word[::-1]) for word in WORDS]


@pytest.fixture(autouse=True)
def own_parts(monkeypatch) -> None:
    """Each test with no parts but its own."""
    forgotten(monkeypatch)


@pytest.fixture
def code(tmp_path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(CODE)
    return path


def recipe(model: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    training = {"steps": 2, "batch_tokens": 60, "precision": "float32", "device": "cpu"}
    return {
        "model": model or BAHDANAU,
        "data": {"validation_size": 2},
        "tokenizer": {"kind": "character", "size": 20},
        "training": training,
        **sections,
    }


@pytest.fixture
def run(code, tmp_path) -> Path:
    """A run whose model has the score of the file."""
    made = regard.train(recipe({**BAHDANAU, "score": "distance"}), output=tmp_path / "run", data=PAIRS, code=code)
    return made.folder


def forgotten(monkeypatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(parts, "PARTS", parts.Parts(builtin=parts.PARTS.builtin))


def test_an_own_score_trains_is_recorded_and_opens_with_its_code(run, code, monkeypatch):
    said = json.loads((run / "regard.json").read_text())["code"]
    assert said == {
        "score": {
            "distance": {
                "file": "my.py",
                "sha256": hashlib.sha256(CODE.encode()).hexdigest(),
                "copy": "code/my.py",
            }
        }
    }
    assert (run / "code" / "my.py").read_text() == CODE
    before = regard.load(run).translate("abc").log_probability
    forgotten(monkeypatch)
    with pytest.raises(regard.InputError, match=r"needs the score 'distance' of my\.py; add --code my\.py"):
        regard.load(run)
    again = regard.load(run, code=code)
    assert type(again.model.decoder.attention.attention.score).__name__ == "Distance"
    assert again.translate("abc").log_probability == before


def test_the_copy_in_a_folder_is_never_run(run, monkeypatch, tmp_path):
    (run / "code" / "my.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    forgotten(monkeypatch)
    with pytest.raises(regard.InputError, match="needs the score"):
        regard.load(run)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("-(self.sharpness", "-(2 * self.sharpness"),  # in the class itself
        lambda text: text.replace(
            "import Alignment, Score,", "import Alignment, Dot as Score,"
        ),  # in what it is made from
        lambda text: text.replace("class Distance(Score)", "class Distance(Far)").replace(
            '@regard.parts.score("distance")', 'class Far(Score):\n    pass\n\n\n@regard.parts.score("distance")'
        ),
    ],
)
def test_another_version_of_a_part_is_told(run, code, monkeypatch, change):
    forgotten(monkeypatch)
    assert change(CODE) != CODE
    code.write_text(change(CODE))
    with pytest.warns(UserWarning, match=r"another version of the score 'distance' than .*my\.py has now"):
        regard.load(run, code=code)


def test_a_change_beside_a_part_is_no_other_version_of_it(run, code, monkeypatch):
    forgotten(monkeypatch)
    code.write_text(
        f"# a note\n{CODE}\n\ndef more():\n    return 1\n".replace("scores.relu() /", "2 * scores.relu() /")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regard.load(run, code=code)


def test_info_without_the_code_shows_what_can_be_read_and_names_what_is_missing(run, code, monkeypatch, capsys):
    assert main(["info", str(run), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    forgotten(monkeypatch)
    assert main(["info", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "needs the score 'distance'" in found["missing"]
    assert f"add --code {code.name}" in found["missing"]
    for name in ("folder", "task", "family", "parameters", "metrics", "recipe", "run", "versions", "sizes"):
        assert found[name] == whole[name]
    assert main(["info", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "missing" in shown
    assert "distance" in shown
    (run / "model.safetensors").write_bytes(b"short")
    assert main(["info", str(run)]) == 2


def test_without_the_copy_only_the_file_can_be_compared(run, code, monkeypatch):
    forgotten(monkeypatch)
    (run / "code" / "my.py").write_text("# not what was copied")
    code.write_text(CODE + "\n# changed\n")
    with pytest.warns(UserWarning, match=r"my\.py changed since .*; whether the score 'distance' did cannot be known"):
        regard.load(run, code=code)


def test_a_model_saved_from_a_folder_keeps_its_code(run, tmp_path):
    regard.load(run).save(tmp_path / "copy")
    regard.load(tmp_path / "copy").save(tmp_path / "copy")  # the folder is still nothing but a model
    assert (tmp_path / "copy" / "code" / "my.py").read_text() == CODE


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def forward(self, query, key, inputs): return (query - key).sum(-1)", "failed on two queries and three keys"),
        (
            "def forward(self, query, key, inputs): return query.sum(-1)",
            r"gives \(1, 1, 2\) for two queries and three keys",
        ),
        ("def forward(self, query, key): return query @ key.mT", "takes 3 positional arguments but 4 were given"),
        (
            "def __init__(self, temperature): super().__init__()",
            "its __init__ needs temperature, and is called with width",
        ),
    ],
)
def test_a_score_that_cannot_work_is_refused_before_training(body, message, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(f"import regard\n\n\n@regard.parts.score('bad')\nclass Bad(regard.attention.Score):\n    {body}\n")
    with pytest.raises(InputError, match=message):
        regard.train(recipe({**BAHDANAU, "score": "bad"}), output=tmp_path / "run", data=PAIRS, code=file)
    assert not (tmp_path / "run").exists()


def test_the_readme_of_the_folder_opens_it_with_its_code(run, monkeypatch):
    text = (run / "README.md").read_text()
    assert "model = regard.load(\".\", code='code/my.py')  # this folder" in text
    assert "Regard does not have the score 'distance': the code is in code/my.py. Read it before you run it." in text
    forgotten(monkeypatch)
    monkeypatch.chdir(run)
    assert regard.load(".", code="code/my.py").translate("abc").text is not None


def test_every_command_that_opens_the_folder_says_what_is_missing(run, code, monkeypatch, capsys):
    for command in (["translate", str(run), "abc"], ["look", str(run), "abc"]):
        forgotten(monkeypatch)
        assert main(command) == 2
        assert "add --code my.py" in capsys.readouterr().err
    forgotten(monkeypatch)
    assert main(["translate", str(run), "abc", "--code", str(code)]) == 0


def test_own_parts_in_comparisons(code, tmp_path):
    compared = regard.compare(
        recipe() | {"data": {"train": str(_pairs(tmp_path)), "validation_size": 2}},
        output=tmp_path / "compared",
        grid={"model.score": ["additive", "distance"]},
        seeds=1,
        code=code,
    )
    assert {run.arm for run in compared.runs} == {"score=additive", "score=distance"}


def _pairs(folder: Path) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return path


@pytest.mark.parametrize("score", ["distance", "plain"])
def test_own_attention_in_a_transformer_agrees_with_stepping(code, score, randomize):
    parts.load_code(code)
    sizes = {"width": 12, "heads": 3, "feedforward_width": 10, "encoder_layers": 1, "decoder_layers": 2}
    config = TransformerConfig(source_vocabulary=11, target_vocabulary=11, maximum_positions=9, score=score, **sizes)
    model = randomize(Transformer(config)).eval()
    source, target = Tokens.pad([[3, 4, 5], [6, 7]]), torch.tensor([[1, 3, 8], [1, 4, 9]])
    whole = model(source, Tokens(target, torch.ones_like(target, dtype=torch.bool)))
    state = model.start(source)
    for place in range(3):
        logits, state = model.step(target[:, place], state)
        torch.testing.assert_close(logits, whole[:, place], rtol=1e-5, atol=1e-5)
    assert torch.allclose(model.alignment(state).sum(dim=-1), torch.ones(2), atol=1e-6)  # both end in a softmax


def test_own_alignments_take_the_place_of_the_softmax(code):
    parts.load_code(code)
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "hidden_width": 4, "attention_width": 5}
    layer = alignment_layer(BahdanauConfig(alignment="rectified", **sizes))
    assert not layer.attention.declaration.distribution
    with pytest.raises(regard.InputError, match="alignment is 'rectified' but must be 'softmax' beside the mechanism"):
        BahdanauConfig(score="plain", alignment="rectified", **sizes)


def test_a_score_of_an_unknown_name_lists_the_own_ones(code):
    parts.load_code(code)
    with pytest.raises(regard.InputError, match=r"score is 'distanse'; choose 'dot' .* 'distance' .*--code FILE"):
        LuongConfig(source_vocabulary=9, target_vocabulary=9, score="distanse")


def test_an_own_model_metric_and_reader_from_file_to_folder_and_back(code, tmp_path, monkeypatch):
    data = tmp_path / "mail.txt"
    data.write_text("".join(f"{'spam' if i % 3 else 'ham'}|word{i} {'win' if i % 3 else 'tea'}\n" for i in range(30)))
    values = recipe(
        {"name": "mine", "width": 5, "bigrams": 0, "feedforward_layers": 1, "classifier_width": 0},
        task="classification",
        data={"train": str(data), "format": "bars"},
        tokenizer={"size": 60},
    )
    values["training"]["best"] = "recall_of_ham"
    made = regard.train(values, output=tmp_path / "run", code=code)
    assert 0.0 <= made.metrics["recall_of_ham"] <= 1.0
    assert set(json.loads((made.folder / "regard.json").read_text())["code"]) == {"model", "metric", "reader"}
    evaluated = regard.evaluate(made.load(), [("tea", "ham"), ("win", "spam"), ("tea time", "ham")])
    right = [each.label == "ham" for each in evaluated.predictions][::2]
    assert evaluated.metrics["recall_of_ham"] == sum(right) / 2
    forgotten(monkeypatch)
    with pytest.raises(regard.InputError, match=r"needs the model 'mine' of my\.py"):
        regard.load(made.folder)
    assert regard.load(made.folder, code=code).classify("tea").label in ("ham", "spam")


def test_a_metric_of_another_task_is_refused_before_training(code, tmp_path):
    values = recipe()
    values["training"] |= {"best": "recall_of_ham", "evaluate_generated": 2}
    with pytest.raises(
        regard.InputError, match=r"training\.best is 'recall_of_ham', which no model for task translation"
    ):
        regard.train(values, output=tmp_path / "run", data=PAIRS, code=code)


def test_installed_packages_name_parts_by_entry_points(code, tmp_path, monkeypatch):
    (tmp_path / "site" / "odd_scores-2.1.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "odd_scores.py").write_text(CODE)
    about = tmp_path / "site" / "odd_scores-2.1.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-scores\nVersion: 2.1\n")
    (about / "entry_points.txt").write_text("[regard.parts]\nscores = odd_scores\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    made = regard.train(recipe({**BAHDANAU, "score": "distance"}), output=tmp_path / "run", data=PAIRS)
    said = json.loads((made.folder / "regard.json").read_text())["code"]["score"]["distance"]
    assert said["package"] == "odd-scores 2.1"
    assert not (made.folder / "code").exists()
    monkeypatch.undo()
    sys.modules.pop("odd_scores", None)
    monkeypatch.setattr(parts, "PARTS", parts.Parts(builtin=parts.PARTS.builtin))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    with pytest.raises(regard.InputError, match=r"of the package odd-scores 2\.1; install it"):
        regard.load(made.folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import regard\n1 / 0\n", r"the code failed in line 2 \(ZeroDivisionError: division by zero\)"),
        ("def f(:\n", r"the code failed in line 1 \(SyntaxError"),
        ("import regard.parts\nregard.parts.score('a b')\nregard.parts.score('a b')(int)\n", "a score is named 'a b'"),
    ],
)
def test_code_that_fails_is_told_in_one_sentence(tmp_path, text, said):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(regard.InputError, match=said):
        parts.load_code(path)
    with pytest.raises(regard.InputError, match="no such file"):
        parts.load_code(tmp_path / "missing.py")


def test_a_name_is_taken_once(code, tmp_path):
    parts.load_code(code)
    parts.load_code([code, code])
    other = tmp_path / "other.py"
    other.write_text(CODE)
    with pytest.raises(regard.InputError, match=r"there is a score 'distance' from .*my\.py already"):
        parts.load_code(other)
    with pytest.raises(regard.InputError, match="there is a model 'bahdanau' in the package already"):
        parts.model(config=BahdanauConfig)(MODELS["bahdanau"].model)


def test_what_is_defined_in_a_session_is_told_so(tmp_path, monkeypatch):
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    exec(CODE, notebook.__dict__)
    exec(CODE, notebook.__dict__)  # a cell run again
    made = regard.train(recipe({**BAHDANAU, "score": "distance"}), output=tmp_path / "run", data=PAIRS)
    forgotten(monkeypatch)
    with pytest.raises(regard.InputError, match="which was defined in a notebook or session; put it into a file"):
        regard.load(made.folder)


def test_without_own_parts_nothing_is_recorded(tmp_path):
    made = regard.train(recipe(), output=tmp_path / "run", data=PAIRS)
    assert "code" not in json.loads((made.folder / "regard.json").read_text())
    assert not (made.folder / "code").exists()
    config = BahdanauConfig(source_vocabulary=9, target_vocabulary=9, hidden_width=4, attention_width=5)
    assert isinstance(alignment_layer(config).attention, ScoredAttention)
    assert not isinstance(alignment_layer(config).attention.score, ScaledDot)


def test_a_config_that_lacks_what_tasks_fill_in_is_refused_by_all_names(tmp_path):
    file = tmp_path / "bare.py"
    file.write_text(
        "import dataclasses, regard\n"
        "from typing import ClassVar\n"
        "from torch import nn\n"
        "@dataclasses.dataclass(frozen=True, kw_only=True)\n"
        "class BareConfig:\n"
        "    model_type: ClassVar[str] = 'bare'\n"
        "    vocabulary: int\n"
        "    width: int = 8\n"
        "@regard.parts.model(config=BareConfig, interface='whole_text')\n"
        "class Bare(nn.Module):\n"
        "    pass\n"
    )
    lacking = "layers, segments, maximum_positions, padding_id, head, outputs"
    with pytest.raises(
        InputError, match=f"'bare' of .*bare.py: BareConfig has no {lacking}; a model of whole texts has them"
    ):
        regard.train("classify", ["model.name=bare"], output=tmp_path / "run", data=[("a", "b")] * 9, code=str(file))


TEXT_MODEL = """
import dataclasses
from typing import ClassVar

import regard
import torch
from regard.attention import MultiHeadAttention, Padding
from regard.layers import Encoded
from torch import nn


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReaderConfig:
    model_type: ClassVar[str] = "reader"
    vocabulary: int
    padding_id: int = 0
    width: int = 8
    layers: int = 1
    segments: int = 0
    maximum_positions: int = 128
    head: str = "sequence"
    outputs: int = 2


@regard.parts.model(config=ReaderConfig, interface="whole_text")
class Reader(nn.Module):
    length_setting = "model.maximum_positions"
    tells_next = False

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocabulary, config.width)
        self.inside = {inside}
        self.output = nn.Linear(config.width, config.outputs)

    @property
    def maximum_length(self):
        return self.config.maximum_positions

    def forward(self, tokens, segments=None, *, at=None, readings=1):
        vectors, real = self.table(tokens.ids), tokens.valid.unsqueeze(-1)
        vectors = {called}
        pooled = (vectors * real).sum(dim=1) / real.sum(dim=1)
        return Encoded(vectors, pooled, logits=self.output(pooled))
"""
INSIDE = {
    "regard": (
        "MultiHeadAttention(config.width, heads=2)",
        "self.inside(vectors, self.inside.keys_values(vectors), mask=Padding(tokens.valid))",
    ),
    "torch": (
        "nn.MultiheadAttention(config.width, 2, batch_first=True)",
        "self.inside(vectors, vectors, vectors, key_padding_mask=~tokens.valid, need_weights=False)[0]",
    ),
    "none": ("nn.Linear(config.width, config.width)", "self.inside(vectors)"),
}


@pytest.mark.parametrize("kind", INSIDE)
def test_look_shows_the_attention_in_a_text_model_of_ones_own(kind, tmp_path, capsys):
    inside, called = INSIDE[kind]
    file = tmp_path / "reader.py"
    file.write_text(TEXT_MODEL.replace("{inside}", inside).replace("{called}", called))
    settings = ["model.name=reader", "tokenizer.size=40", "training.epochs=null", "training.steps=1"]
    data = [("a fine film", "good"), ("a dull film", "bad")] * 9
    trained = regard.train("classify", settings, output=tmp_path / "run", data=data, code=str(file))
    capsys.readouterr()
    words = ["look", str(tmp_path / "run"), "a fine film", "--code", str(file)]
    if kind == "none":
        assert main(words) == 2
        assert "nothing to show of this run: no attention was called, neither a mechanism" in capsys.readouterr().err
        return
    assert main([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    classifier = trained.load()
    with regard.look(classifier) as seen:
        classifier.classify("a fine film")
    assert found["address"] == "inside"
    assert (found["query_tokens"][0], found["query_tokens"][-1], len(found["weights"])) == ("[CLS]", "[SEP]", 2)
    torch.testing.assert_close(torch.tensor(found["weights"]), seen.weights("inside")[0], atol=1e-6, rtol=1e-4)


def test_training_a_text_model_that_returns_logits_alone_says_what_to_return(tmp_path):
    inside, called = INSIDE["none"]
    file = tmp_path / "reader.py"
    whole = TEXT_MODEL.replace("{inside}", inside).replace("{called}", called)
    file.write_text(whole.replace("Encoded(vectors, pooled, logits=self.output(pooled))", "self.output(pooled)"))
    settings = ["model.name=reader", "tokenizer.size=40", "training.epochs=null", "training.steps=1"]
    data = [("a fine film", "good"), ("a dull film", "bad")] * 9
    with pytest.raises(InputError, match=r"the forward of Reader returns a tensor; return a regard\.layers\.Encoded"):
        regard.train("classify", settings, output=tmp_path / "run", data=data, code=str(file))


def test_files_are_found_after_the_current_folder_has_changed(tmp_path, monkeypatch):
    (tmp_path / "mine_of_a_folder.py").write_text("")
    monkeypatch.chdir(tmp_path)
    parts.load_code("mine_of_a_folder.py")
    assert "mine_of_a_folder.py" in parts.code_files()
    monkeypatch.chdir("/")
    assert str((tmp_path / "mine_of_a_folder.py").resolve()) in parts.code_files()
