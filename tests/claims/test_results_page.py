"""What `make results` makes of recorded claims."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
            "row": row,
            "statement": "Something (really) holds.",
            "predicted": "At least 95 % | or so.",
            "verdict": verdict,
            "changes": changes,
        },
    }


def test_claims_stand_in_a_table_by_row_refuted_or_not(results):
    pages = [("b", page("1.10", "refuted", [])), ("a", page("1.9", "confirmed", ["training.steps=2"]))]
    lines = results.claims(pages)
    rows = [line for line in lines if line.startswith("| 1.")]
    assert [row.split(" | ")[0] for row in rows] == ["| 1.9", "| 1.10"]
    assert "**confirmed** (with training.steps=2)" in rows[0]
    assert rows[1].endswith("| **refuted** |")
    assert "At least 95 % \\| or so." in rows[1]
    assert "a: accuracy 0.9123 (0.9, 0.9123, not reached)" in rows[1]
    assert "(#claim-110-something-really-holds)" in rows[1]
    assert "## Claim 1.10: Something (really) holds" in lines
    assert "![Something (really) holds.](results/claims/x.png)" in lines
    assert results.claims([]) == []
