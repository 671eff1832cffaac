"""Claims are run, judged and kept, whatever comes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import regard
from regard.claims.claim import claim, claim_of
from regard.claims.verdict import judged, last_verdict, record, run_claim

JUDGE = 'median("pre", "loss") < 100'


@pytest.fixture
def tiny(small):
    """A claim of two arms; keywords change its fields."""

    def make(**changes):
        values = {
            "name": "tiny",
            "row": "9.9",
            "source": "Nobody 2099",
            "statement": "Something holds.",
            "predicted": "The loss is below 100.",
            "minutes": 1,
            "own_data": {"says": "Your pairs replace the drawn ones.", "languages": ["en", "de"]},
            "recipe": small(steps=3),
            "arms": {"pre": {"model.norm": "pre"}, "post": {"model.norm": "post"}},
            "seeds": [1, 2],
            "measures": ["loss", {"name": "answers", "kind": "decoded", "metric": "bleu", "split": "test", "size": 9}],
            "judge": JUDGE,
        }
        return claim_of(values | changes, "tiny.yaml")

    return make


@pytest.mark.parametrize(
    ("judge", "refutes", "outcome"),
    [
        ('median("a", "bleu") > 10', None, "confirmed"),
        ('median("a", "bleu") > 40', None, "refuted"),
        ('median("a", "bleu") > 40', 'median("a", "bleu") < 35', "refuted"),
        ('median("a", "bleu") > 40', 'median("a", "bleu") < 20', "undecided"),
        ('median("a", "bleu") > 10', 'median("a", "bleu") > 0', "confirmed"),
        ('median("b", "bleu") > 10', None, "undecided"),
        ('median("a", "bleu") > 40', 'median("b", "bleu") > 10', "undecided"),
    ],
)
def test_verdicts(judge, refutes, outcome, tiny, made_up):
    found = made_up({"a": {"bleu": [30.0, 31.0, 32.0]}, "b": {"bleu": [30.0, None, 32.0]}})
    names = {
        "arms": {"a": None, "b": None},
        "measures": [{"name": "bleu", "kind": "decoded", "metric": "bleu", "size": 9}],
    }
    verdict, reason = judged(tiny(judge=judge, refutes=refutes, **names), found)
    assert verdict == outcome
    assert bool(reason) == (outcome == "undecided")


def test_a_run_is_judged_and_kept(tiny, tmp_path):
    verdict = run_claim(tiny(), output=tmp_path)
    values = verdict.to_json()
    assert list(values) == [
        "claim", "row", "source", "round", "rounds", "predicted", "measured", "parts", "verdict", "reason", "provenance",
        "seconds", "seeds", "command",
    ]  # fmt: skip
    assert (values["claim"], values["row"], values["verdict"]) == ("tiny", "9.9", "confirmed")
    assert values["command"] == "regard claims run tiny"
    assert values["seeds"] == [1, 2]
    assert values["seconds"] > 0
    assert list(values["measured"]) == ["pre"]  # what the judge asked for, each seed's value
    losses = values["measured"]["pre"]["loss"]
    assert losses["seeds"]["2"] == regard.load(tmp_path / "tiny" / "runs" / "pre" / "2").metrics["loss"]
    assert verdict.changes == ()
    assert last_verdict(tiny(), tmp_path).to_json() == values
    again = run_claim(tiny(), output=tmp_path).to_json()
    assert again == values
    # A verdict on another prediction is none on this one.
    assert last_verdict(tiny(predicted="The loss is below 50."), tmp_path).outcome is None
    assert last_verdict(tiny(name="other"), tmp_path).to_json()["verdict"] is None


def test_a_refutation_is_kept_and_changes_stand_beside_it(tiny, tmp_path):
    refuted = tiny(judge='median("pre", "loss") < 0')
    verdict = run_claim(refuted, ["training.steps=2"], output=tmp_path, seeds=1)
    assert (verdict.outcome, verdict.reason) == ("refuted", "")
    assert verdict.changes == ("training.steps=2", "seeds 1")
    assert verdict.command == "regard claims run tiny training.steps=2 --seeds 1"
    (place,) = tmp_path.iterdir()
    assert place.name.startswith("tiny-")  # beside the claim itself, whose verdict is still open
    assert json.loads((place / "claim.json").read_text())["verdict"] == "refuted"
    assert last_verdict(refuted, tmp_path).outcome is None


def test_on_the_users_own_pairs(tiny, words, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("a\tb\n" + "".join(f"{source}\t{target}\n" for source, target in words))
    overrides = [f"data.path={path}", "data.source=a", "data.target=b"]
    verdict = run_claim(tiny(), overrides, output=tmp_path / "claims", seeds=1)
    assert verdict.outcome == "confirmed"
    assert verdict.changes[0] == f"data.path={path}"
    recipe = verdict.compared.comparison.recipe_of(verdict.compared.comparison.arms[0], 1)
    assert recipe.data.sequences is None
    first = json.loads(Path(recipe.data.train).read_text().splitlines()[0])
    assert first["source"] in {pair[0] for pair in words}


def test_a_claim_without_data_of_its_own(tiny, small, words, tmp_path):
    needing = tiny(
        own_data={"says": "Meant for Multi30k.", "needed": True, "languages": ["en", "de"]},
        recipe=small(steps=3) | {"data": {}},
    )
    assert needing.command == "regard claims run tiny data.path=FOLDER"
    with pytest.raises(
        regard.InputError, match=r"needs pairs, and nothing is downloaded: Meant for Multi30k\. Give data\.path="
    ):
        run_claim(needing, output=tmp_path / "claims")
    assert not (tmp_path / "claims").exists()
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for start, rows in (("train", words[:200]), ("val", words[200:230]), ("test_2016", words[230:260])):
        for side, column in (("en", 0), ("de", 1)):
            (folder / f"{start}.{side}").write_text("".join(f"{row[column]}\n" for row in rows))
    verdict = run_claim(needing, [f"data.path={folder}"], output=tmp_path / "claims")
    # It is the claim itself: nothing is changed, and its verdict is the one that is listed.
    assert verdict.changes == ()
    assert last_verdict(needing, tmp_path / "claims").outcome == "confirmed"
    assert str(folder) in last_verdict(needing, tmp_path / "claims").to_json()["command"]
    pytest.importorskip("matplotlib")
    path, _ = record(verdict, tmp_path / "results")
    assert str(tmp_path) not in path.read_text(), "where the data lay is nobody's business"
    assert json.loads(path.read_text())["command"] == "regard claims run tiny data.path=FOLDER"


def test_a_claim_about_text_asks_for_text(tmp_path):
    with pytest.raises(regard.InputError, match=r"needs text, and nothing is downloaded: Meant for WikiText-2"):
        run_claim(claim("residual-stacks"), output=tmp_path)


def test_a_claim_that_means_nothing_on_other_data_says_what_to_do(tiny, tmp_path):
    closed = tiny(own_data="it is about drawn sequences; use regard compare")
    with pytest.raises(regard.InputError, match="cannot be run on other data: it is about drawn sequences"):
        run_claim(closed, ["data.path=x.tsv"], output=tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"judge": 'median("per", "loss") < 1'}, "no arm 'per'; did you mean 'pre'"),
        ({"judge": 'median("pre", "los") < 1'}, "no measure 'los'; did you mean 'loss'"),
        ({"judge": 'median("pre", "loss", 5) < 1'}, "has no bins for length 5"),
        ({"judge": "1"}, "claim 'tiny': judge, column 1"),
        ({"refutes": "2 +"}, "claim 'tiny': refutes, column"),
        ({"statment": "x"}, "unknown key 'statment'; did you mean 'statement'"),
        ({"minutes": "long"}, "minutes is 'long'"),
        ({"arms": {"pre": {"model.nrom": 1}}}, "claim 'tiny': arm 'pre'"),
    ],
)
def test_a_claim_that_cannot_be_is_refused(changes, sentence, tiny):
    with pytest.raises(regard.InputError, match=sentence):
        tiny(**changes)


def test_claims_of_the_users_own(tiny, small, tmp_path):
    values = {
        "name": "mine", "row": "x", "source": "me", "statement": "s", "predicted": "p", "minutes": 1, "own_data": "no",
        "recipe": small(), "arms": {"pre": None}, "measures": ["loss"], "judge": JUDGE,
    }  # fmt: skip
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    assert claim(str(path)).statement == "s"
    with pytest.raises(regard.InputError, match=r"missing judge|judge"):
        claim_of({key: value for key, value in values.items() if key != "judge"}, "mine.yaml")


def test_what_was_found_is_written_among_the_results(tiny, tmp_path):
    pytest.importorskip("matplotlib")
    refuted = tiny(judge='median("pre", "loss") < 0')
    verdict = run_claim(refuted, output=tmp_path / "claims")
    path, plot = record(verdict, tmp_path / "results")
    assert (path.name, plot.read_bytes()[:4]) == ("claims-tiny.json", b"\x89PNG")
    values = json.loads(path.read_text())
    assert {"title", "target", "figures", "command", "threads", "precision", "seed", "machine", "note"} <= values.keys()
    assert values["figures"]["verdict"] == "refuted"
    assert len(values["figures"]["pre: loss"]["seeds"]) == 2
    assert values["claim"]["row"] == "9.9"
    assert values["plot"] == "claims/tiny.png"
    assert (path.parent / values["plot"]).is_file()
    changed = run_claim(refuted, ["training.steps=2"], output=tmp_path / "claims", seeds=1)
    record(changed, tmp_path / "results")
    assert "Run with training.steps=2, seeds 1" in json.loads(path.read_text())["note"]
    with pytest.raises(regard.InputError, match="was not run"):
        record(last_verdict(refuted, tmp_path / "claims"), tmp_path / "results")
