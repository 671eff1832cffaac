"""What `make results` makes of recorded claims."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.claims import claims
from regard.claims.page import claim_page
from regard.claims.shipped import shipped_verdicts

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "write_results.py"


@pytest.fixture
def results(tmp_path, monkeypatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_results_of_claims", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec.loader.exec_module(module)
    return module


def page(row: str, verdict: str, changes: list[str]) -> dict[str, Any]:
    return {
        "title": f"Claim {row}: Something (really) holds",
        "target": "At least 95 % | or so.",
        "figures": {
            "verdict": verdict,
            "a: accuracy": {"median": 0.91234, "seeds": [0.9, 0.91234, "not reached"]},
            "minutes": 3.0,
        },
        "command": "regard claims run x",
        "threads": 2,
        "precision": "float32",
        "seed": "1, 2, 3",
        "machine": {"processor": "P", "cores": 2, "gpu": None, "versions": {"torch": "2"}},
        "note": "Somebody 1999.",
        "plot": "claims/x.png",
        "claim": {
            "claim": f"claim-{row}",
            "row": row,
            "source": "Somebody 1999, table 1",
            "statement": "Something (really) holds.",
            "predicted": "At least 95 % | or so.",
            "verdict": verdict,
            "changes": changes,
        },
    }


def test_the_index_has_every_claim_by_paper_and_by_deck(results):
    pages = [
        ("b", page("1.10", "refuted", [])),
        ("a", page("1.9", "confirmed", [])),
        ("c", page("1.9", "supported", [])),
    ]
    pages[2][1]["claim"]["round"] = 2
    lectures = "| B-01 | D0, D2 | the deck says | what is right (claim 1.9) | E | proof |\n"
    text = results.claim_index(pages, {"claim-1.10": "by a little | or so"}, lectures)
    lines = text.splitlines()
    first = sum(claim.judge is not None for claim in claims())
    said = (
        f"First round, 2 of {first} run: 1 confirmed, 1 refuted; second round, 1 of {len(claims())} run: 1 supported."
    )
    assert said in lines
    decks = lines[lines.index("## By lecture deck") : lines.index("## All pages")]
    assert [line for line in decks if line.startswith("- ")] == ["- D0", "- D2"]
    listed = lines[lines.index("## All pages") :]
    assert "### Somebody 1999" in listed
    rows = [line for line in listed if "row 1." in line]
    assert rows == [
        "- [Something (really) holds](claim-1.9.md): row 1.9, **supported**",
        "- [Something (really) holds](claim-1.10.md): row 1.10, **refuted**, by a little \\| or so",
    ]


def test_a_page_has_its_last_round_first():
    first, second = page("1.9", "refuted", []), page("1.9", "supported", [])
    part = {
        "says": "It is ahead.", "kind": "direction", "predicted": "above 0", "verdict": "supported", "reason": "",
        "estimate": 0.31234, "interval": [0.3, None], "smallest_visible": 0.05, "paper": {"value": 0.4, "place": "table 2"},
    }  # fmt: skip
    second["claim"] |= {"round": 2, "parts": [part]}
    text = claim_page([first, second], place="../results/", readings={1: "by half a point"})
    assert text.startswith(
        "# Something (really) holds\n\nClaim 1.9, Somebody 1999, table 1. It was tested in two rounds"
    )
    assert text.index("## Second round: supported") < text.index("## First round: refuted")
    assert "| direction: It is ahead. | above 0 | 0.3123 | 0.3 to - | 0.05 | 0.4 (table 2) | supported |" in text
    assert "**refuted**: by half a point." in text
    assert "regard claims run x --round 1\n" in text
    assert "![Something (really) holds.](../results/claims/x.png)" in text
    assert "| a: accuracy | 0.9123 | 0.9, 0.9123, not reached |" in text


def test_what_is_generated_agrees_with_the_results(results):
    """The pages of the claims and the verdicts in the wheel are those of docs/results: `make results` writes them."""
    files = sorted(results.RESULTS.glob("claims-*.json"))
    pages = [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in files]
    pages = [(name, found) for name, found in pages if "claim" in found]
    readings = results.yaml.safe_load((results.RESULTS / "readings.yaml").read_text(encoding="utf-8"))
    assert json.loads(results.SHIPPED.read_text(encoding="utf-8")) == results.shipped(pages, readings)
    folder = results.ROOT / "docs" / "claims"
    lectures = (results.ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
    assert (folder / "index.md").read_text(encoding="utf-8") == results.claim_index(pages, readings, lectures)
    found = results.by_claim(pages)
    assert {path.stem for path in folder.glob("*.md")} == {"index", *found}
    verdicts = shipped_verdicts()
    for name, mine in found.items():
        said = {results.round_of(each): results.reading_of(each, readings) for each in mine}
        assert (folder / f"{name}.md").read_text("utf-8") == claim_page(mine, place="../results/", readings=said)
        assert [(each.round, each.verdict) for each in verdicts[name]] == [
            (results.round_of(each), each["claim"]["verdict"]) for each in mine
        ]
    first = [given.verdict for each in verdicts.values() for given in each if given.round == 1]
    assert [first.count(kind) for kind in ("confirmed", "refuted", "undecided")] == [26, 17, 1]


def test_the_table_of_speeds_agrees_with_the_records(results):
    page = results.speed_page(results.RESULTS)
    assert (results.ROOT / "docs" / "speed.md").read_text(encoding="utf-8") == page
    assert page.count(", missed |") > 0


def test_a_row_of_speed_says_what_was_asked_and_missed(results, tmp_path):
    record = {
        "figures": {
            "alone, int8": {"regard": 120.0, "llamacpp q8_0": 100.0},
            "alone, int8, ours over peer": {"llamacpp q8_0": 1.2},
        },
        "machine": {"processor": "AMD EPYC"},
        "note": "tokens/s; a model",
    }
    limits = {"figures": {"memory, read, GB/s": 30.0, "MB": 125.0}}
    (tmp_path / "speed-a.json").write_text(json.dumps(record))
    (tmp_path / "limits.json").write_text(json.dumps(limits))
    row = "{record: speed-a, case: 'alone, int8', peer: llamacpp q8_0, asked: ASKED, limit: [limits, MB, memory]}"
    rows = "".join(f"    - {row.replace('ASKED', asked)}\n" for asked in ("1.4", "1.2"))
    (tmp_path / "speed.yaml").write_text(f"- title: One prompt\n  rows:\n{rows}  limits: The memory.\n")
    page = results.speed_page(tmp_path)
    cells = "| [alone, int8](results/speed-a.json) | EPYC | 120 tokens/s | llama.cpp q8_0: 100 | 1.20 | {} | {} | {} | 50 % |"
    assert cells.format("-", "-", "1.4, missed") in page
    assert cells.format("-", "-", "1.2") in page
    assert "2 rows; 1 of the 2 with a ratio asked for reach it, on Zen 5 0 of 0." in page
    record["figures"]["alone, int8, ours over peer"]["llamacpp q8_0"] = 1.1
    (tmp_path / "speed-a-second-day.json").write_text(json.dumps(record))
    page = results.speed_page(tmp_path)
    assert cells.format("1.10", "-", "1.2, missed") in page
    assert "2 rows; 0 of the 2 with a ratio asked for reach it, on Zen 5 0 of 0." in page
    record["figures"]["alone, int8, ours over peer"]["llamacpp q8_0"] = 1.3
    (tmp_path / "speed-a-zen5.json").write_text(json.dumps(record))
    (tmp_path / "speed-limits-zen5.json").write_text(json.dumps({"figures": {"memory, read, GB/s": 60.0, "MB": 125.0}}))
    page = results.speed_page(tmp_path)
    assert cells.format("1.10", "1.30 (25 %), missed", "1.4, missed") in page
    assert cells.format("1.10", "1.30 (25 %)", "1.2, missed") in page
    assert "2 rows; 0 of the 2 with a ratio asked for reach it, on Zen 5 1 of 2." in page


def test_a_claim_that_was_not_run_is_listed_with_its_command(results):
    lines = results.missing({claim.name for claim in claims() if claim.name != "scaled-scores"})
    assert [line for line in lines if "regard claims run" in line] == [
        f"- 2.1b {next(claim.statement for claim in claims() if claim.name == 'scaled-scores')} "
        "`regard claims run scaled-scores`, 25"
    ]
    assert results.missing({claim.name for claim in claims()}) == []


def test_the_verdicts_are_counted(results):
    pages = [("a", page("1.1", "refuted", [])), ("b", page("1.2", "confirmed", [])), ("c", page("1.3", "refuted", []))]
    first = sum(claim.judge is not None for claim in claims())
    assert results.counted(pages) == f"first round, 3 of {first} run: 1 confirmed, 2 refuted"


def test_every_reading_is_of_a_claim_that_was_run(results):
    readings = results.yaml.safe_load((results.RESULTS / "readings.yaml").read_text(encoding="utf-8"))
    files = {name: f"claims-{name.replace(', ', '-').replace(' ', '-')}.json" for name in readings}
    assert {name.partition(",")[0] for name in readings} <= {claim.name for claim in claims()}
    assert all((results.RESULTS / file).is_file() for file in files.values())
