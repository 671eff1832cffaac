from __future__ import annotations

import json

import pytest
import yaml

KEYS = [
    "claim", "row", "source", "round", "rounds", "predicted", "measured", "parts", "verdict", "reason", "provenance", "seconds",
    "seeds", "command",
]  # fmt: skip


@pytest.fixture
def claim_file(recipe_file, tmp_path):
    """A claim that is refuted within a second."""
    recipe = yaml.safe_load(recipe_file.read_text())
    recipe["training"] |= {"steps": 4, "evaluate_generated": 0}
    recipe["model"] |= {"width": 4}
    values = {
        "name": "sure",
        "row": "9.9",
        "source": "Nobody 2099",
        "statement": "Everything is learnt at once.",
        "predicted": "The loss is below 0.1 after 4 updates.",
        "minutes": 1,
        "own_data": {"says": "Your pairs replace the drawn ones."},
        "recipe": recipe,
        "arms": {"pre": ["model.norm=pre"], "post": ["model.norm=post"]},
        "seeds": [1, 2],
        "measures": ["loss", {"name": "updates", "kind": "steps_to", "metric": "loss", "threshold": 0.1}],
        "judge": 'median("pre", "loss") < 0.1 or median("post", "updates") < 3',
    }
    path = tmp_path / "sure.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def test_the_list_has_no_verdicts_before_anything_is_run(command, tmp_path):
    answer = command("claims", "list", "--output", tmp_path, "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    assert all(list(each) == [*KEYS, "shipped"] for each in found)
    assert (found[0]["shipped"][-1]["round"], found[0]["shipped"][-1]["verdict"]) == (1, "refuted")
    assert {each["verdict"] for each in found} == {None}
    assert [each["row"] for each in found][:3] == ["1.1", "1.2", "1.3a"]
    assert found[0]["command"] == "regard claims run gated-recall"
    people = command("claims", "list", "--output", tmp_path).out
    assert people.splitlines()[0].split() == ["row", "claim", "shipped", "yours", "minutes", "statement"]
    assert len(people.splitlines()) == len(found) + 1
    last = {each["claim"]: each["shipped"][0]["verdict"] for each in found if each["shipped"]}
    assert last["word-order"] == "supported"
    for line in people.splitlines()[1:]:
        name = next(each["claim"] for each in found if f" {each['claim']} " in line)
        assert f"{last.get(name, '-'):<15}not run" in line


def test_a_claim_is_shown_with_what_would_confirm_it(command, tmp_path):
    text = command("claims", "show", "2.1b", "--output", tmp_path).out
    assert "scaled-scores" in text
    assert "At 256 scores over the root are ahead" in " ".join(text.split())
    assert "shipped    round 1: refuted, without a scale" in text
    said = 'value("256, over the root", "accuracy") - value("256, not scaled", "accuracy"): above 0'
    assert said in " ".join(text.split())
    values = json.loads(command("claims", "show", "scaled-scores", "--output", tmp_path, "--json").out)
    assert values["comparison"]["arms"]["256, not scaled"] == {"model.scale_power": 0.0}
    assert [part["kind"] for part in values["second_round"]].count("direction") == 1
    assert "did you mean 'scaled-scores'" in command("claims", "show", "scaled-score").refusal()
    assert "there is no command 'shwo'; did you mean 'show'?" in command("claims", "shwo").refusal()


def test_a_claim_of_parts_alone_is_shown_without_a_round(command, tmp_path):
    text = command("claims", "show", "wider-beams", "--output", tmp_path).out
    assert "direction  From a beam of 4 to one of 64" in text
    assert "judge" not in text
    assert "round" not in text
    values = json.loads(command("claims", "show", "5.7", "--output", tmp_path, "--json").out)
    assert (values["judge"], values["refutes"], values["rounds"]) == (None, None, [2])
    assert "has no round 1; it is only judged by parts" in command("claims", "run", "5.7", "--round", "1").refusal()


def test_a_refutation_is_said_and_written(command, claim_file, tmp_path):
    pytest.importorskip("matplotlib")
    words = ("claims", "run", claim_file, "--output", tmp_path / "claims", "--record", tmp_path / "results")
    answer = command(*words, "--json")
    assert answer.code == 0, answer.err
    values = json.loads(answer.out)
    assert list(values) == KEYS
    assert values["verdict"] == "refuted"
    assert values["measured"]["post"]["updates"]["seeds"] == {"1": None, "2": None}
    assert values["measured"]["post"]["updates"]["note"] == "null: not reached"
    assert (tmp_path / "results" / "claims-sure.json").is_file()
    assert (tmp_path / "results" / "claims" / "sure.png").is_file()
    page = (tmp_path / "claims" / "sure" / "claim.md").read_text()
    assert "## First round: refuted" in page
    assert "](claim.png)" in page
    assert (tmp_path / "claims" / "sure" / "claim.png").is_file()
    people = command(*words).out
    assert "verdict    refuted" in people
    assert "post, updates: - (seeds -, -) (-: not reached)" in people
    assert "predicted  The loss is below 0.1" in people
    assert "changed" not in people


def test_changes_and_own_pairs_stand_beside_the_verdict(command, claim_file, pairs_file, tmp_path):
    answer = command(
        "claims", "run", claim_file, "training.steps=2", "--on", pairs_file, "--seeds", 1, "--output", tmp_path / "c"
    )  # fmt: skip
    assert answer.code == 0, answer.err
    text = " ".join(answer.out.split())
    assert f"changed training.steps=2, data.path={pairs_file}, seeds 1; the verdict is for the claim with these" in text


def test_several_claims_are_a_list(command, claim_file, tmp_path):
    answer = command("claims", "run", claim_file, claim_file, "--seeds", 1, "--output", tmp_path / "c", "--json")
    assert [each["claim"] for each in json.loads(answer.out)] == ["sure", "sure"]


def test_mistakes_are_one_sentence(command, tmp_path):
    assert "no claim is named" in command("claims", "run", "training.steps=2").refusal()
    assert "there is no claim 'nothing'" in command("claims", "run", "nothing").refusal()
    needs = command("claims", "run", "content-scores", "--output", tmp_path).refusal()
    assert "needs pairs, and nothing is downloaded" in needs
    other = command("claims", "run", "gated-recall", "data.path=x.tsv", "--output", tmp_path).refusal()
    assert "cannot be run on other data: the delay is what is measured" in other
    assert list(tmp_path.iterdir()) == []
