"""Ten updates of each model give the losses they always gave (tests/golden/make_loss_curves.py)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "golden" / "make_loss_curves.py"


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_loss_curves", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_the_loss_curve_is_the_golden_one(model, golden, tmp_path):
    wanted = json.loads(golden.FILE.read_text())["curves"][model]
    found = golden.curve(model, tmp_path / "run")
    assert len(found["train"]) == 10
    for part, losses in wanted.items():
        assert found[part] == pytest.approx(losses, rel=golden.TOLERANCE), part
