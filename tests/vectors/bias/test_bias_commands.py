"""`regard vectors bias` and `regard vectors debias`: what they print, what they write, and what they refuse."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from regard.cli.vectors.bias import bias
from regard.cli.vectors.debias import debias
from regard.cli.vectors.evaluate import evaluate
from regard.errors import InputError
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding.encoder import SentenceEncoder
from regard.tasks.sentence_embedding.task import SentenceEmbeddingTask
from regard.text import Tokenizer
from regard.vectors.bias import bias_subspace, leftover
from regard.vectors.reading import read_vectors
from regard.vectors.store import WordVectors
from regard.vectors.writing import write_vectors

PAIRS = [["she", "he"], ["her", "his"], ["woman", "man"], ["aunt", "uncle"]]


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(bias)
    app.command()(debias)
    return CliRunner().invoke(app, [str(each) for each in arguments])


def object_of(found: Result) -> dict:
    assert found.exit_code == 0, (found.output, found.exception)
    return json.loads(found.stdout)


@pytest.fixture
def place(tmp_path, planted):
    write_vectors(planted, tmp_path / "made.vec")
    (tmp_path / "pairs.json").write_text(json.dumps(PAIRS))
    (tmp_path / "jobs.txt").write_text("\n".join(f"w{number}" for number in range(30)) + "\nunheard\n")
    test = {"targ1": ["w1", "w2", "w3"], "targ2": ["w4", "w5", "w6"], "attr1": ["she", "her"], "attr2": ["he", "his"]}
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "first.json").write_text(json.dumps(test))
    (tmp_path / "tests" / "second.jsonl").write_text(json.dumps(test | {"targ1": ["unheard"]}))
    texts = {key: [f"{word} is here" for word in words] for key, words in test.items()}
    (tmp_path / "seat.json").write_text(json.dumps(texts))
    return tmp_path


def test_an_audit_in_json_has_every_part(place):
    asked = ["--weat", place / "tests", "--seat", place / "seat.json", "--pairs", place / "pairs.json"]
    found = run("bias", place / "made.vec", *asked, "--occupations", place / "jobs.txt", "--json")
    (audit,) = object_of(found)["audits"]
    assert [test["test"] for test in audit["tests"]] == ["first", "seat"]
    assert audit["tests"][0]["p_method"] == "exact"
    (skipped,) = audit["skipped"]
    assert skipped.startswith("test 'second': made.vec has 0 of the 1 words of targ1, and 2 are needed; ")
    assert "left out: test 'second'" in found.stderr
    direction = audit["direction"]
    assert direction["missing"] == ["unheard"]
    assert direction["direction"]["positive"] == "she"
    cosines = [each["cosine"] for each in direction["occupations"]]
    assert cosines == sorted(cosines, reverse=True)
    assert direction["direct_bias"] == pytest.approx(np.abs(cosines).mean())
    assert len(direction["analogy_answers"]) == direction["judged"] == 30
    assert any("clusters" in each or "direction removes it alone" in each for each in audit["cautions"])


def test_people_get_a_table_and_what_it_does_not_show(place):
    found = run(
        *("bias", place / "made.vec", "--weat", place / "tests", "--pairs", place / "pairs.json", "--ddof", 1),
        *("--occupations", place / "jobs.txt"),
    )
    assert found.exit_code == 0, found.output
    for part in ("she - he, of 4 pairs", "towards she", "towards he", "d (ddof 1)", "What this does not show:"):
        assert part in found.stdout


def test_an_encoder_is_tested_on_texts(place):
    tokenizer = Tokenizer.train(["she he her his is here w1 w2 w3 w4 w5 w6"] * 3, kind="bert", size=60)
    task = SentenceEmbeddingTask(tokenizer=tokenizer)
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": 20, "deviation": 0.3}
    SentenceEncoder(Bert(BertConfig(**sizes, **task.model_settings())), task).save(place / "encoder")
    (audit,) = object_of(run("bias", place / "encoder", "--seat", place / "seat.json", "--json"))["audits"]
    assert audit["direction"] is None
    assert math.isfinite(audit["tests"][0]["effect_size"])
    assert any("vectors of whole sentences" in each for each in audit["cautions"])
    refused = run("bias", place / "encoder")
    assert isinstance(refused.exception, InputError)
    assert "is a model of texts; give tests with --seat or --weat" in str(refused.exception)


def test_debiasing_writes_vectors_and_tells_what_changed(place, planted):
    (place / "judged.txt").write_text("".join(f"w{n} w{n + 1} {n % 7}\n" for n in range(40)))
    asked = ["--pairs", place / "pairs.json", "--equalize", place / "pairs.json", "--similarity", place / "judged.txt"]
    found = object_of(run("debias", place / "made.vec", place / "out", *asked, "--json"))
    changes = {each["name"]: each for each in found["bias"]}
    assert changes["largest cosine of a neutral word"]["after"] < 1e-6
    assert changes["largest cosine of a neutral word"]["before"] > 0.1
    assert found["clusters"]["after"] > 0.9
    assert found["utility"][0]["name"] == "Spearman, judged"
    assert found["debiased"]["specific"] == 8
    written = read_vectors(place / "out")
    subspace = bias_subspace(planted, [tuple(pair) for pair in PAIRS])
    assert leftover(written, subspace, [word for pair in PAIRS for word in pair]).largest < 1e-6
    assert written.metadata["debiased"]["method"] == "hard"
    table = run("debias", place / "made.vec", place / "out.vec", *asked)
    assert table.exit_code == 0, table.output
    assert "two clusters tell the sides apart" in table.stdout
    assert "does not show" in table.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bias", "made.vec", "--weat", "nowhere.json"], "no such file"),
        (["bias", "made.vec", "--pairs", "tests"], "is a folder, not a file"),
        (["bias", "nowhere.vec"], "nowhere.vec"),
        (["debias", "made.vec", "made.vec", "--pairs", "pairs.json"], "give another place for what is written"),
        (["debias", "made.vec", "out", "--pairs", "jobs.txt"], "set 1: is 'w0'; give two words"),
    ],
)
def test_what_cannot_be_done_is_refused(place, monkeypatch, words, says):
    monkeypatch.chdir(place)
    found = run(*words)
    assert isinstance(found.exception, InputError)
    assert says in str(found.exception)
    assert not (place / "out").exists()


@pytest.fixture
def lower_cased(tmp_path):
    """Lower-cased vectors, and a test whose names stand in capitals, as in the published files; and one of unheard words."""
    words = ("amy", "joan", "lisa", "john", "paul", "mike", "home", "family", "office", "salary", "will")
    draw = np.random.default_rng(7)
    matrix = draw.normal(size=(len(words), 6)).astype(np.float32)
    write_vectors(WordVectors(words=words, matrix=matrix, name="lower"), tmp_path / "lower.vec")
    test = {
        "targ1": ["Amy", "Joan", "Lisa", "Zoe"],
        "targ2": ["John", "Paul", "Mike"],
        "attr1": ["home", "family"],
        "attr2": ["office", "salary"],
    }
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "names.json").write_text(json.dumps(test))
    (tmp_path / "tests" / "unheard.json").write_text(json.dumps(test | {"targ2": ["Qu", "Xi"]}))
    return tmp_path


def test_names_in_capitals_are_found_in_lower_cased_vectors(lower_cased):
    found = run("bias", lower_cased / "lower.vec", "--weat", lower_cased / "tests", "--json")
    (audit,) = object_of(found)["audits"]
    (test,) = audit["tests"]
    assert test["sizes"] == [3, 3, 2, 2]
    assert set(test["associations"]) == {"amy", "joan", "lisa", "john", "paul", "mike"}
    assert test["missing"] == ["Zoe"]
    exact = run("bias", lower_cased / "lower.vec", "--weat", lower_cased / "tests", "--case", "exact")
    assert exact.exit_code != 0
    assert "has 0 of the 4 words" in str(exact.exception)
    with pytest.raises(InputError, match="there is no case 'small'"):
        raise run("bias", lower_cased / "lower.vec", "--case", "small").exception


def test_dropped_words_and_tests_are_named_in_terminal_and_page(lower_cased):
    found = run("bias", lower_cased / "lower.vec", "--weat", lower_cased / "tests")
    assert "names: no vector for Zoe" in found.stdout
    assert "left out: test 'unheard'" in found.stderr
    app = typer.Typer()
    app.command()(evaluate)
    asked = [lower_cased / "lower.vec", "--weat", lower_cased / "tests"]
    page = CliRunner().invoke(app, [*map(str, asked), "-o", str(lower_cased / "page.html")])
    assert page.exit_code == 0, (page.output, page.exception)
    for said in (page.stderr, (lower_cased / "page.html").read_text()):
        assert "names: no vector for Zoe" in said
        assert "not tested: test" in said
        assert "unheard" in said
    nowhere = CliRunner().invoke(app, list(map(str, asked)))
    assert "--weat is for the page" in str(nowhere.exception)


def test_each_end_of_the_direction_lists_only_words_on_its_side(tmp_path, planted):
    write_vectors(planted, tmp_path / "made.vec")
    (tmp_path / "pairs.json").write_text(json.dumps(PAIRS))
    one_side = [word for word in planted.words if word.startswith("w") and word[1:].isdigit() and planted[word][0] > 0][
        :5
    ]
    (tmp_path / "jobs.txt").write_text("\n".join(one_side))
    found = run(
        *("bias", tmp_path / "made.vec", "--pairs", tmp_path / "pairs.json", "--occupations", tmp_path / "jobs.txt")
    )
    (first,) = (line for line in found.stdout.splitlines() if line.startswith("towards she"))
    (second,) = (line for line in found.stdout.splitlines() if line.startswith("towards he "))
    assert all(word in first for word in one_side)
    assert second.endswith("no occupation")
