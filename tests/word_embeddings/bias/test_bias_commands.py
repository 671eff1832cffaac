"""`regard vectors bias` and `regard vectors debias`: what they print, what they write, and what they refuse."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from regard.cli.vectors.bias import bias, debias
from regard.cli.vectors.evaluation import evaluate
from regard.errors import InputError
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer
from regard.word_embeddings.bias import bias_subspace, leftover
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.store import WordVectors

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
    assert skipped.startswith("test 'second': made.vec has 0 of the 1 words of targ1, and at least 2 are needed; ")
    assert "left out: test 'second'" in found.stderr
    direction = audit["direction"]
    assert direction["missing"] == ["unheard"]
    assert direction["direction"]["positive"] == "she"
    cosines = [each["cosine"] for each in direction["occupations"]]
    assert cosines == sorted(cosines, reverse=True)
    assert direction["direct_bias"] == pytest.approx(np.abs(cosines).mean())
    assert len(direction["analogy_answers"]) == direction["judged"] == 30
    assert any("clusters" in each or "direction is removed" in each for each in audit["cautions"])


def test_people_get_a_table_and_what_it_does_not_show(place):
    found = run(
        *("bias", place / "made.vec", "--weat", place / "tests", "--pairs", place / "pairs.json", "--ddof", 1),
        *("--occupations", place / "jobs.txt"),
    )
    assert found.exit_code == 0, found.output
    for part in ("she - he, of 4 pairs", "towards she", "towards he", "d (ddof 1)", "What this does not show:"):
        assert part in found.stdout
    (header, first) = (line for line in found.stdout.splitlines() if line.startswith(("test ", "first ")))
    assert header.split()[-4:] == ["p", "permutations", "no", "vector"]
    assert "exact, all 20" in first
    assert "p: of a one-sided permutation test for d above 0, over all partitions" in found.stdout
    assert "first: With 3 and 3 target words no p-value can be small: the smallest possible p is 0.05." in found.stdout


def test_lists_say_what_they_leave_out(place):
    """Cut lists say of how many they are the first; words without a vector are counted and named; specific ones are marked."""
    (place / "specific.json").write_text(json.dumps(["W3", "nobody"]))
    (place / "jobs.txt").write_text(
        "\n".join(["w1", "w3", *(f"w{n}" for n in range(5, 40)), *(f"un{n}" for n in range(12))])
    )
    (place / "pairs.json").write_text(json.dumps([*PAIRS, ["gal", "guy"]]))
    asked = [
        "--pairs",
        place / "pairs.json",
        "--occupations",
        place / "jobs.txt",
        "--specific",
        place / "specific.json",
    ]
    found = run("bias", place / "made.vec", *asked)
    assert found.exit_code == 0, found.output
    (audit,) = object_of(run("bias", place / "made.vec", *asked, "--json"))["audits"]
    direction = audit["direction"]
    assert (direction["specific"], direction["missing_specific"], direction["judged"]) == (["w3"], ["nobody"], 36)
    assert direction["missing"] == [f"un{n}" for n in range(12)]
    sides = [sum(sign * each["cosine"] >= 0.005 for each in direction["occupations"]) for sign in (1, -1)]
    for end, count in zip(("she", "he"), sides, strict=True):
        (line,) = (line for line in found.stdout.splitlines() if line.startswith(f"towards {end} "))
        assert count > 8
        assert f"the farthest 8 of {count}: " in line
    (answers,) = (line for line in found.stdout.splitlines() if line.startswith("he : x = she : ?"))
    assert "the first 8 of 36: " in answers
    assert "- pairs: no vector for gal, guy" in found.stdout
    assert "- occupations: 12 of 49 have no vector: un0, un1, un2, un3, un4, un5, un6, un7 and 4 more" in found.stdout
    assert "- specific words: 1 of 2 has no vector: nobody" in found.stdout
    (place / "jobs.txt").write_text("w1\nw3\nw5\n")
    assert "w3* " in run("bias", place / "made.vec", *asked).stdout
    (place / "jobs.txt").write_text("w3\n")
    none = object_of(run("bias", place / "made.vec", *asked, "--weat", place / "tests", "--json"))["audits"][0]
    assert none["direction"] is None
    assert "of the 1 occupations, all that have a vector are specific; give others" in none["skipped"][0]


def test_the_same_test_in_two_files_is_made_once(place):
    one = json.loads((place / "tests" / "first.json").read_text())
    (place / "tests" / "weat.json").write_text(json.dumps([one | {"name": "again"}, one | {"targ1": ["w7", "w8"]}]))
    found = run("bias", place / "made.vec", "--weat", place / "tests", "--pairs", place / "pairs.json", "--json")
    (audit,) = object_of(found)["audits"]
    assert [test["test"] for test in audit["tests"]] == ["again", "weat 2"]
    assert "1 tests with the same words as others are left out: first of first.json is again of weat.json" in (
        found.stderr
    )


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
    assert "is a text encoder; give tests with --seat or --weat" in str(refused.exception)


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
    rows = [line.split() for line in table.stdout.splitlines()]
    assert ["before", "->", "after", "of"] in rows
    (spearman,) = (row for row in rows if row[:2] == ["Spearman,", "judged"])
    assert spearman[-2:] == ["40", "pairs"]
    assert "two clusters tell the sides apart" in table.stdout
    assert "does not show" in table.stdout


def test_figures_of_questions_with_equalised_words_are_marked(place):
    (place / "judged.txt").write_text("she he 1\nShe w3 4\nw1 w2 3\nunheard her 2\n")
    (place / "asked.txt").write_text(": family\nshe he woman man\nw1 w2 w3 w4\n")
    sets = ["--similarity", place / "judged.txt", "--analogies", place / "asked.txt"]
    asked = [place / "made.vec", place / "out", "--pairs", place / "pairs.json", *sets]
    plain = object_of(run("debias", *asked, "--json"))
    assert [each["equalised"] for each in plain["utility"]] == [0, 0]
    asked += ["--equalize", place / "pairs.json"]
    found = object_of(run("debias", *asked, "--json"))
    assert [(each["count"], each["equalised"]) for each in found["utility"]] == [(3, 2), (2, 1)]
    assert any("says nothing of other words" in each for each in found["cautions"])
    assert "3 pairs, 2 with equalised words" in run("debias", *asked).stdout


def test_debiasing_tells_d_and_p_and_the_words_before_and_after(place):
    asked = ["--pairs", place / "pairs.json", "--weat", place / "tests", "--occupations", place / "jobs.txt"]
    found = object_of(run("debias", place / "made.vec", place / "out.vec", *asked, "--json"))
    (test,) = found["tests"]
    alone = [
        object_of(run("bias", place / name, *asked, "--json"))["audits"][0]["tests"][0]
        for name in ("made.vec", "out.vec")
    ]
    for when, direct in zip(("before", "after"), alone, strict=True):
        assert (test[when]["effect_size"], test[when]["p"]) == pytest.approx((direct["effect_size"], direct["p"]))
        assert test[when]["words"] == [["w1", "w2", "w3"], ["w4", "w5", "w6"], ["she", "her"], ["he", "his"]]
    assert "has 0 of the 1 words of targ1" in found["skipped"][0]
    assert (found["missing"]["occupations"], found["missing"]["pairs"]) == (["unheard"], [])
    table = run("debias", place / "made.vec", place / "out.vec", *asked)
    (row,) = (line for line in table.stdout.splitlines() if line.startswith("first "))
    before, after = (each["effect_size"] for each in alone)
    assert f"3+3+2+2  {before:.2f} -> {after:.2f}" in row
    assert f"{alone[0]['p']:.2g} -> {alone[1]['p']:.2g}" in row
    assert "exact, all 20" in row
    assert "- words of --occupations: 1 of 31 has no vector: unheard" in table.stdout
    assert "left out: test 'second'" in table.stderr
    assert any("one-sided permutation test" in each for each in found["cautions"])


def test_specific_words_in_capitals_are_kept_in_lower_cased_vectors(place, planted):
    """As the pairs' words are found, so are those that keep the direction."""
    (place / "capitals.json").write_text(json.dumps([[one.title(), other.title()] for one, other in PAIRS]))
    found = object_of(run("debias", place / "made.vec", place / "out", "--pairs", place / "capitals.json", "--json"))
    assert found["debiased"]["specific"] == 8
    kept = read_vectors(place / "out")["she"]
    assert kept == pytest.approx(planted["she"] / np.linalg.norm(planted["she"]), abs=1e-6)


def test_what_came_from_glove_goes_back_as_glove(place, planted):
    """A .txt without a header stays one; gensim reads either with the reader for it."""
    keyed = pytest.importorskip("gensim.models").KeyedVectors

    write_vectors(planted, place / "glove.txt", "glove")
    for source, target, extra, header in (
        ("glove.txt", "one.txt", [], False),
        ("glove.txt", "two.vec", [], True),
        ("glove.txt", "three.txt", ["--format", "word2vec"], True),
        ("made.vec", "four.txt", [], True),
        ("made.vec", "five.txt", ["--format", "glove"], False),
    ):
        found = run("debias", place / source, place / target, "--pairs", place / "pairs.json", *extra)
        assert found.exit_code == 0, found.output
        assert f"{target} ({'word2vec' if header else 'glove'})" in found.stderr
        theirs = keyed.load_word2vec_format(place / target, no_header=not header)
        ours = read_vectors(place / target)
        assert (list(theirs.index_to_key), len(ours)) == (list(planted.words), len(planted))
        np.testing.assert_array_equal(theirs.vectors, ours.matrix)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["debias", "made.vec", "out", "--pairs", "pairs.json", "--format", "gloves"], "there is no kind 'gloves'"),
        (["debias", "made.vec", "out.csv", "--pairs", "pairs.json"], "its ending does not determine a format"),
        (["bias", "made.vec", "--weat", "nowhere.json"], "no such file"),
        (["bias", "made.vec", "--pairs", "tests"], "is a folder, not a file"),
        (["bias", "nowhere.vec"], "nowhere.vec"),
        (["debias", "made.vec", "made.vec", "--pairs", "pairs.json"], "give another path for the output"),
        (["debias", "made.vec", "out", "--pairs", "jobs.txt"], "line 1: is 'w0'; give at least two different words"),
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
    assert "d above 0: the first targets are closer to the first attributes" in (lower_cased / "page.html").read_text()
    assert "p, one-sided permutation test" in (lower_cased / "page.html").read_text()
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


def test_the_page_has_the_lists_that_were_given(place):
    """Own pairs, occupations and specific words are on the page, with what was cut, marked and left out."""
    app = typer.Typer()
    app.command()(evaluate)
    (place / "jobs.txt").write_text("\n".join(f"w{number}" for number in range(30)) + "\nunheard\n")
    (place / "specific.txt").write_text("w3\n" + "\n".join(f"w{number}" for number in range(20, 30)))
    lists = ["--occupations", place / "jobs.txt", "--specific", place / "specific.txt", "--pairs", place / "pairs.json"]
    asked = [str(each) for each in (place / "made.vec", *lists)]
    write_vectors(read_vectors(place / "made.vec"), place / "copy.vec")
    found = CliRunner().invoke(app, [*asked, str(place / "copy.vec"), "-o", str(place / "page.html")])
    assert found.exit_code == 0, (found.output, found.exception)
    said = "occupations: 1 of 31 has no vector: unheard"
    assert found.stderr.count(said) == 1
    assert f"made.vec, copy.vec: {said}" in found.stderr
    page = (place / "page.html").read_text()
    for part in (said, "The 10 from each end of 30.", "he : x = she : ?, 12 of 19", "19 occupations", ">format<"):
        assert part in page
    assert "came about" not in page
    assert "a specific word, which the direct bias leaves out" in page
    assert "computed separately for each of the embeddings" in page
    refused = CliRunner().invoke(app, asked)
    assert "--pairs is for the page" in str(refused.exception)
