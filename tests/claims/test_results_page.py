"""What `make results` makes of recorded claims."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.claims import claims

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "write_results.py"


@pytest.fixture
def results(tmp_path, monkeypatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_results_of_claims", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
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
            "statement": "Something (really) holds.",
            "predicted": "At least 95 % | or so.",
            "verdict": verdict,
            "changes": changes,
        },
    }


def test_claims_stand_in_a_table_by_row_refuted_or_not(results):
    pages = [("b", page("1.10", "refuted", [])), ("a", page("1.9", "confirmed", ["training.steps=2"]))]
    lines = results.claims(pages, {"claim-1.10": "by a little | or so"})
    rows = [line for line in lines if line.startswith("| 1.")]
    assert [row.split(" | ")[0] for row in rows] == ["| 1.9", "| 1.10"]
    assert "**confirmed** (with training.steps=2)" in rows[0]
    assert rows[1].endswith("| **refuted**: by a little \\| or so |")
    assert "At least 95 % \\| or so." in rows[1]
    assert "a: accuracy 0.9123 (0.9, 0.9123, not reached)" in rows[1]
    assert "(#claim-110-something-really-holds)" in rows[1]
    assert "## Claim 1.10: Something (really) holds" in lines
    assert "![Something (really) holds.](results/claims/x.png)" in lines
    assert results.claims([], {}) == []


def test_a_claim_that_was_not_run_is_listed_with_its_command(results):
    lines = results.missing({claim.name for claim in claims() if claim.name != "scaled-scores"})
    assert [line for line in lines if "regard claims run" in line] == [
        f"- 2.1b {next(claim.statement for claim in claims() if claim.name == 'scaled-scores')} "
        "`regard claims run scaled-scores`, 25"
    ]
    assert results.missing({claim.name for claim in claims()}) == []


def test_the_verdicts_are_counted(results):
    pages = [("a", page("1.1", "refuted", [])), ("b", page("1.2", "confirmed", [])), ("c", page("1.3", "refuted", []))]
    assert results.counted(pages) == f"3 of {len(claims())} run: 1 confirmed, 2 refuted"


def test_every_reading_is_of_a_claim_that_was_run(results):
    readings = results.yaml.safe_load((results.RESULTS / "readings.yaml").read_text(encoding="utf-8"))
    assert set(readings) <= {claim.name for claim in claims()}
    assert all((results.RESULTS / f"claims-{name}.json").is_file() for name in readings)
