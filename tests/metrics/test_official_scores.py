"""The figures of the official scripts (tests/golden/make_official_scores.py): SQuAD 1.1, SQuAD 2.0, conlleval."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.data.tags import convert, spans_of
from regard.metrics.answers import squad2_scores, squad_scores
from regard.metrics.classification import accuracy, chunk_scores

SCRIPT = Path(__file__).parents[1] / "golden" / "make_official_scores.py"
EXACT = 1e-13  # only the order of a sum's parts may differ, between versions of Python


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_official_scores", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wanted(golden) -> dict[str, Any]:
    return json.loads(golden.FILE.read_text())


def test_squad_1_1(golden, wanted) -> None:
    answers = golden.answers(impossible=False)
    predictions = golden.predictions(answers, some_missing=True)
    assert len(predictions) < len(answers)
    scores = squad_scores(answers, predictions)
    assert scores.exact_match == pytest.approx(wanted["squad1"]["exact_match"], rel=EXACT)
    assert scores.f1 == pytest.approx(wanted["squad1"]["f1"], rel=EXACT)


@pytest.mark.parametrize("name", ["squad2", "squad2_with_probabilities"])
def test_squad_2_0(name, golden, wanted) -> None:
    answers = golden.answers(impossible=True)
    predictions = golden.predictions(answers, some_missing=False)
    odds = golden.no_answer(answers) if name == "squad2_with_probabilities" else None
    scores = squad2_scores(answers, predictions, odds, threshold=0.6 if odds else 1.0)
    found: dict[str, float] = {}
    parts = {"": scores.overall, "HasAns_": scores.has_answer, "NoAns_": scores.no_answer}
    for prefix, part in parts.items():
        assert part is not None
        found |= {f"{prefix}exact": part.exact_match, f"{prefix}f1": part.f1, f"{prefix}total": part.count}
    for name_of, best in (("exact", scores.best_exact_match), ("f1", scores.best_f1)):
        assert (best is None) == (odds is None)
        if best is not None:
            found |= {f"best_{name_of}": best.score, f"best_{name_of}_thresh": best.threshold}
    assert found == {key: pytest.approx(value, rel=EXACT) for key, value in wanted[name].items()}


@pytest.mark.parametrize("name", ["conlleval", "conlleval_short"])
@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "BILOU"])
def test_conlleval(name, scheme, golden, wanted) -> None:
    gold = golden.bio_tags(4, golden.CONLLEVAL[name])
    guess = golden.guessed(gold, 5)
    first, second, *types = wanted[name]
    right = accuracy([tag for tags in gold for tag in tags], [tag for tags in guess for tag in tags])
    assert f"accuracy: {100 * right:6.2f}%; " in second
    if scheme != "BIO":  # the same spans, in tags of another scheme
        gold, guess = ([convert(tags, "BIO", scheme) for tags in side] for side in (gold, guess))
    scores = chunk_scores([spans_of(tags, scheme) for tags in gold], [spans_of(tags, scheme) for tags in guess])
    counts, overall, *rows = scores.table().splitlines()
    assert first.endswith(f"tokens with {counts}")
    assert second.endswith(overall.partition(": ")[2].rpartition("  ")[0])
    assert rows == types
