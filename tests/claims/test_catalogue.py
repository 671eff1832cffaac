"""Every claim that ships: it can be read, what its judge asks for is measured, and its thresholds are those it predicts.

Claims of another package stand beside them, and nothing is imported before a claim is run.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import regard
from regard.claims.catalogue import BUILTIN, Computation, claim_files, experiment, experiment_modules
from regard.claims.claim import claim, claims
from regard.claims.comparison import read_comparison
from regard.claims.expression import references
from regard.claims.own_data import Files, OwnData, on_own_data
from regard.claims.verdict import run_claim

every_claim = pytest.mark.parametrize("name", list(claim_files()))


def test_the_rows_are_there_in_order():
    assert [each.row for each in claims()] == [
        "1.1",
        "1.2",
        "1.3a",
        "1.3b",
        "1.4",
        "1.5a",
        "1.5b",
        "1.6",
        "1.7",
        "1.8",
        "1.9 + 1.10",
        "2.1a",
        "2.1b",
        "2.1c",
        "2.2",
        "2.3",
        "2.4",
        "2.4x",
        "2.5a",
        "2.5b",
        "2.6",
        "2.7a",
        "2.7b",
        "3.1",
        "3.1b",
        "3.2",
        "3.3a",
        "3.3b",
        "3.4",
        "3.5",
        "3.6",
        "3.7a",
        "3.7b",
        "3.8",
        "4.1a",
        "4.1b",
        "4.2",
        "4.3a",
        "4.3b",
        "4.4",
        "4.5",
        "4.6",
        "4.7",
        "4.8",
        "5.1",
        "5.2",
        "5.3",
        "5.4",
        "5.5",
        "5.6",
        "5.7",
        "5.8",
        "5.9",
        "5.10",
    ]
    assert claim("2.1b").name == "scaled-scores"


@every_claim
def test_a_file_is_a_claim(name):
    found = claim(name)
    assert found.name == name
    assert found.seeds == (1, 2, 3) if found.judge is not None else min(found.seeds) >= 11
    assert list(references(*found.asked(found.rounds[0])))
    assert found.statement.endswith(".")
    assert found.predicted.endswith(".")


@every_claim
def test_arms_train_equally_long(name):
    found = claim(name)
    if isinstance(found.resolved, Computation):
        return
    arms = found.resolved.arms
    starts = {name for arm in arms for name in arm.needs}  # what others start from is compared with none
    compared = [arm.applied(found.resolved.recipe)["training"] for arm in arms if arm.name not in starts]
    ends = {training.get("steps") for training in compared}
    assert len(ends) == 1
    assert None not in ends
    assert {training.get("patience") for training in compared} == {None}


@every_claim
def test_thresholds_of_the_judge_stand_in_what_is_predicted(name):
    """As written, in per cent, or as a share that falls or is added."""
    found = claim(name)
    if found.judge is None:
        return
    predicted = set(re.findall(r"\d+(?:\.\d+)?", found.predicted))
    text = re.sub(r'"[^"]*"', "", found.expressions[0].text)
    for number in set(re.findall(r"(?<![\w.])\d+\.?\d*", re.sub(r"\(,[^)]*\)", "", text))) - {"1"}:
        value = float(number)
        spoken = {value, 100 * value, 100 * (1 - value), 100 * (value - 1)}
        halves = {"half"} if value == 0.5 else set()
        assert any(abs(float(said) - each) < 1e-6 for said in predicted for each in spoken) or any(
            half in found.predicted for half in halves
        ), f"{number} is not in {found.predicted!r}"


@every_claim
def test_on_own_data_it_is_still_a_comparison(name):
    found = claim(name)
    if isinstance(found.own_data, str):
        assert "regard compare" in found.own_data
        return
    if isinstance(found.resolved, Computation):
        assert found.own_data.files
        return
    files = Files(train="train.jsonl", validation="validation.jsonl", test="test.jsonl")
    there = read_comparison(on_own_data(found.comparison, found.own_data, files))
    for arm in (arm for arm in there.arms if not arm.needs):
        data = there.recipe_of(arm, 1).data
        assert (data.builtin, data.train) == (None, "train.jsonl")
        assert data.validation == "validation.jsonl"
    judged = [measure for measure in there.measures if measure.data is not None and measure.kind != "evaluated"]
    assert all(measure.data == {"validation": "test.jsonl"} for measure in judged)
    assert isinstance(found.own_data, OwnData)


def test_the_model_of_the_length_penalty_is_that_of_the_fall_with_length():
    """So that its runs can be taken."""
    one, other = claim("length-penalty").resolved, claim("fall-with-length-multi30k").resolved
    assert one.recipe_of(one.arm("beam 1"), 2) == other.recipe_of(other.arm("search"), 2)


def test_every_experiment_beside_a_claim_is_one_and_is_used():
    rounds = [each.in_round(number) for each in map(claim, claim_files()) for number in each.rounds]
    asked = {each.comparison.get("experiment", {}).get("name") for each in rounds} - {None}
    assert set(experiment_modules()) == asked
    for name in asked:
        assert experiment(name).__module__ == experiment_modules()[name]


def test_a_list_of_the_claims_imports_none_of_them(environment):
    code = (
        "import sys; from regard.claims import claims; found = claims();"
        "print(len(found), [m for m in sys.modules if m.startswith('regard_claims')], found[0].seeds, found[0].command)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{len(claim_files())} [] (1, 2, 3) regard claims run gated-recall"


CLAIM = """
name: even-coins
row: my 1
source: Nobody 2099
statement: Coins are even.
predicted: Of 1,000 throws between 40 and 60 % are heads.
minutes: 1
own_data: a coin has no data; use regard compare
experiment: {name: coins, throws: 1000}
arms: {one: {}}
seeds: [1, 2]
judge: abs(median("one", "heads") - 0.5) < 0.1
"""

COINS = """
import random
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Coins:
    precision: ClassVar[str] = "no model is trained"
    throws: int = 10

    @property
    def measures(self):
        return ("heads",)

    def run(self, seed):
        draw = random.Random(seed)
        return {"heads": sum(draw.random() < 0.5 for _ in range(self.throws)) / self.throws}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package of claims called `coin_claims`: a folder on the path with an entry point; keywords change its files."""

    def make(entry="coin_claims", **files):
        site = tmp_path / "site"
        usual = {"__init__.py": "", "even_coins/claim.yaml": CLAIM, "even_coins/coins.py": COINS}
        information = {
            "METADATA": "Metadata-Version: 2.1\nName: coin-claims\nVersion: 1.0\n",
            "entry_points.txt": f"[regard.claims]\ncoins = {entry}\n",
        }
        for folder, texts in (("coin_claims", usual | files), ("coin_claims-1.0.dist-info", information)):
            for name, text in texts.items():
                (site / folder / name).parent.mkdir(parents=True, exist_ok=True)
                (site / folder / name).write_text(text)
        monkeypatch.syspath_prepend(site)
        for name in [name for name in sys.modules if name.split(".")[0] == "coin_claims"]:
            monkeypatch.delitem(sys.modules, name)

    yield make
    for name in [name for name in sys.modules if name.split(".")[0] == "coin_claims"]:
        del sys.modules[name]


def test_another_package_adds_a_claim_with_its_experiment(package, tmp_path):
    ours = len(claims())
    package()
    assert len(claims()) == ours + 1
    assert "even-coins" in {each.name for each in claims()}
    assert not [name for name in sys.modules if name.startswith("coin_claims")]
    found = claim("even-coins")
    assert claim("my 1") == found
    assert found.resolved.experiment_of(found.resolved.arms[0]).throws == 1000
    assert run_claim(found, output=tmp_path / "runs").outcome == "confirmed"
    with pytest.raises(regard.InputError, match="did you mean 'even-coins'"):
        claim("even-coin")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"entry": "no_claims"}, "the package coin-claims names a catalogue of claims, no_claims, which is not a package"),
        ({"entry": "no.claims"}, "the package coin-claims names a catalogue of claims, no.claims, which is not a package"),
        ({"copying/claim.yaml": CLAIM}, "regard_claims and coin_claims both have the claim 'copying'; uninstall one"),
        ({"even_coins/word_order.py": COINS}, "both have the experiment 'word_order'; uninstall one"),
        ({"even_coins/claim.yaml": CLAIM.replace("name: even", "name: odd")}, "has the name 'odd-coins'; name it 'even-coins'"),
        ({"even_coins/claim.yaml": CLAIM.replace("name: coins", "name: coin")}, "no experiment 'coin'; did you mean 'coins'"),
        ({"even_coins/coins.py": "import no_such_module"}, r"'coins' \(coin_claims.even_coins.coins\) cannot be imported"),
        ({"even_coins/coins.py": "ONE = 1"}, "defines 0 dataclasses with a method run; it must define exactly one"),
        ({"even_coins/claim.yaml": CLAIM.replace('"heads"', '"tails"')}, "there is no measure 'tails'; choose from heads"),
    ],
)  # fmt: skip
def test_a_catalogue_that_cannot_be_used_is_named(files, says, package):
    package(**files)
    with pytest.raises(regard.InputError, match=says):
        claim("even-coins")


def test_the_catalogue_beside_the_package_needs_no_entry_point(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    assert claim("copying").name == "copying"
    assert experiment_modules()["word_order"] == f"{BUILTIN}.word_order.word_order"
