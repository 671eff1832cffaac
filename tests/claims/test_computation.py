"""Claims of experiments: an experiment's numbers by arm and seed, judged, kept and written down like any other."""

from __future__ import annotations

import gzip
import json
import random

import pytest

import regard
from regard.claims.catalogue import NUMBERS, compute, read_computation
from regard.claims.claim import claim, claim_of
from regard.claims.comparison import read_comparison
from regard.claims.verdict import last_verdict, record, run_claim
from regard.text import Tokenizer
from regard_claims.exponent_smoothing.shared_vocabulary import SharedVocabulary, pieces_per_word

EXPERIMENT = {"name": "shared_vocabulary", "languages": ["xx", "yy"], "cut": "yy", "share": 0.05, "size": 120}
ARMS = {"as it is": {"exponent": 1.0}, "all alike": {"exponent": 0.0}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two languages without a word in common: each has 40 words of six letters, of its own half of the alphabet."""
    place = tmp_path_factory.mktemp("languages")
    for language, letters in (("xx", "abcdefghijklm"), ("yy", "nopqrstuvwxyz")):
        draw = random.Random(language)
        words = ["".join(draw.choices(letters, k=6)) for _ in range(40)]
        for split, count in (("train", 600), ("val", 30)):
            lines = "".join(" ".join(draw.choices(words, k=8)) + "\n" for _ in range(count))
            if language == "yy":
                (place / f"{split}.{language}.gz").write_bytes(gzip.compress(lines.encode()))
            else:
                (place / f"{split}.{language}").write_text(lines)
    return place


@pytest.fixture
def small(folder):
    """The claim of the catalogue on small languages; keywords change its fields."""

    def make(**changes):
        values = {
            "name": "small",
            "row": "9.9",
            "source": "Nobody 2099",
            "statement": "Something holds.",
            "predicted": "It falls.",
            "minutes": 1,
            "own_data": {"says": "Meant for these.", "needed": True, "files": "a folder with train.xx and val.xx"},
            "experiment": EXPERIMENT,
            "arms": ARMS,
            "seeds": [1, 2],
            "judge": 'median("all alike", "pieces per word, yy") < median("as it is", "pieces per word, yy")',
        }
        return claim_of(values | changes, "small.yaml")

    return make


def test_an_experiment_is_judged_kept_and_taken_up_again(small, folder, tmp_path):
    heard: list[str] = []
    verdict = run_claim(small(), [f"data.path={folder}"], output=tmp_path, say=heard.append)
    assert (verdict.outcome, verdict.changes, verdict.seeds) == ("confirmed", (), (1, 2))
    assert heard == [
        "9.9 small: Something holds.",
        "as it is, seed 1 (1 of 4) ...",
        "all alike, seed 1 (2 of 4) ...",
        "as it is, seed 2 (3 of 4) ...",
        "all alike, seed 2 (4 of 4) ...",
    ]
    numbers = verdict.measured["all alike"]["pieces per word, yy"]
    assert 1 <= numbers["smallest"] <= numbers["median"] < verdict.measured["as it is"]["pieces per word, yy"]["median"]
    assert last_verdict(small(), tmp_path).to_json() == verdict.to_json()
    # What was computed is taken as it is; what is damaged is computed again, to the same number.
    kept = tmp_path / "small" / "runs" / "as it is" / "1" / NUMBERS
    before = json.loads(kept.read_text())
    changed = json.loads(kept.read_text())
    changed["numbers"] = dict.fromkeys(changed["numbers"], 77.0)
    kept.write_text(json.dumps(changed))
    again = run_claim(small(), [f"data.path={folder}"], output=tmp_path)
    assert again.measured["as it is"]["pieces per word, yy"]["seeds"]["1"] == 77.0
    kept.write_text("{")
    assert run_claim(small(), [f"data.path={folder}"], output=tmp_path).to_json()["measured"] == verdict.measured
    assert json.loads(kept.read_text())["numbers"] == before["numbers"]


def test_changes_stand_beside_the_verdict(small, folder, tmp_path):
    verdict = run_claim(small(), [f"data.path={folder}", "experiment.size=70"], output=tmp_path, seeds=1)
    assert "experiment.size=70" in verdict.changes
    (place,) = tmp_path.iterdir()
    assert place.name.startswith("small-")
    with pytest.raises(
        regard.InputError,
        match=r"training\.steps=3'?: this claim has an experiment instead of a recipe; settings begin with",
    ):
        run_claim(small(), [f"data.path={folder}", "training.steps=3"], output=tmp_path)
    with pytest.raises(regard.InputError, match="unknown key 'sise'; did you mean 'size'"):
        run_claim(small(), [f"data.path={folder}", "experiment.sise=3"], output=tmp_path)


def test_it_is_written_among_the_results(small, folder, tmp_path):
    pytest.importorskip("matplotlib")
    verdict = run_claim(small(), [f"data.path={folder}"], output=tmp_path / "claims")
    path, plot = record(verdict, tmp_path / "results")
    values = json.loads(path.read_text())
    assert values["precision"] == "no model is trained"
    assert values["command"] == "regard claims run small data.path=FOLDER"
    assert str(folder) not in path.read_text()
    assert plot.read_bytes()[:4] == b"\x89PNG"
    columns = [column.header for column in verdict.compared.table().columns]
    assert columns == ["arm", "pieces per word, xx", "pieces per word, yy"]


def test_the_plot_has_no_learning_curve(small, folder, tmp_path):
    pytest.importorskip("matplotlib")
    from regard.claims.compared import figure

    verdict = run_claim(small(), [f"data.path={folder}"], output=tmp_path)
    titles = [axes.get_title(loc="left") for axes in figure(verdict.compared).axes]
    assert titles == ["pieces per word, xx", "pieces per word, yy"]


def test_data_that_is_missing_is_asked_for(small, folder, tmp_path):
    with pytest.raises(
        regard.InputError, match=r"Meant for these\. Give data\.path=, a folder with train\.xx and val\.xx"
    ):
        run_claim(small(), output=tmp_path)
    with pytest.raises(regard.InputError, match=r"nowhere: is no folder; give one with train\.xx, val\.xx"):
        run_claim(small(), ["data.path=nowhere"], output=tmp_path)
    with pytest.raises(regard.InputError, match=r"holds no train\.zz .or the same with \.gz."):
        run_claim(small(), [f"data.path={folder}", "experiment.languages=[xx, yy, zz]"], output=tmp_path)
    with pytest.raises(regard.InputError, match=r"experiment\.path is missing"):
        compute({"experiment": EXPERIMENT, "arms": ARMS}, output=tmp_path, seeds=[1])
    assert not list(tmp_path.rglob(NUMBERS))


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        (
            {"experiment": {"name": "shared_vocabluary"}},
            "no experiment 'shared_vocabluary'; did you mean 'shared_vocabulary'",
        ),
        ({"experiment": EXPERIMENT | {"cut": "zz"}}, r"arm 'as it is': experiment\.cut"),
        ({"experiment": EXPERIMENT | {"share": 2}}, r"experiment\.share"),
        ({"experiment": "shared_vocabulary"}, "give its name and settings"),
        ({"experiment": EXPERIMENT, "budget": {"steps": 3}}, "budget is not a section of a claim with an experiment"),
        ({"experiment": EXPERIMENT, "arms": {"a": {"exponent": "high"}}}, "exponent is 'high'"),
        ({"experiment": EXPERIMENT, "arms": {"a": {}, "b": {"languages": ["yy"]}}}, "have different measures"),
    ],
)
def test_what_cannot_be_computed_is_refused(sections, says):
    with pytest.raises(regard.InputError, match=says):
        read_computation({"arms": ARMS} | sections)


def test_a_judge_may_ask_for_what_is_measured_alone(small):
    with pytest.raises(regard.InputError, match="there is no measure 'pieces per word, zz'; did you mean"):
        small(judge='median("all alike", "pieces per word, zz") < 1')


def test_a_computation_goes_into_a_mapping_and_back():
    computation = read_computation({"experiment": EXPERIMENT, "arms": ARMS, "seeds": [4]})
    assert read_computation(computation.to_mapping()) == computation
    assert [measure.name for measure in computation.measures] == ["pieces per word, xx", "pieces per word, yy"]


def test_a_recipe_computes_nothing(small):
    recipe = {"model": {"name": "cho"}, "data": {"dates": {}}, "tokenizer": {"kind": "word"}, "training": {"steps": 1}}
    measure = {"name": "a", "kind": "computed"}
    with pytest.raises(regard.InputError, match="computed is for claims with an experiment"):
        read_comparison(recipe, grid={"model.hidden_width": [4]}, measures=[measure])


def test_the_seed_decides_which_part_of_the_cut_language_is_kept(folder):
    settings = {"path": str(folder), "languages": ("xx", "yy"), "cut": "yy", "size": 150, "exponent": 0.5}
    first, again, other = (SharedVocabulary(**settings).run(seed) for seed in (1, 1, 2))
    assert first == again
    assert first["pieces per word, yy"] != other["pieces per word, yy"]
    whole = SharedVocabulary(**settings | {"share": 1.0}).run(1)
    assert whole["pieces per word, yy"] < first["pieces per word, yy"]


def test_what_is_unknown_counts_as_its_characters():
    tokenizer = Tokenizer.from_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "dog", "##s", "."])
    assert pieces_per_word(tokenizer, ["dogs dog.", "straße dog"]) == (2 + 2 + 6 + 1) / 4
    with pytest.raises(regard.InputError, match="no words"):
        pieces_per_word(tokenizer, ["", " "])


def test_the_claim_of_the_catalogue():
    found = claim("3.4")
    assert found.name == "exponent-smoothing"
    assert found.needs_data
    exponents = [found.resolved.experiment_of(arm).exponent for arm in found.resolved.arms]
    assert exponents == [1.0, 0.7, 0.0]
    assert {found.resolved.experiment_of(arm).size for arm in found.resolved.arms} == {8000}
