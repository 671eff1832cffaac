"""Folders that an earlier version wrote open and answer as they did, and training goes as it went (tests/golden/folders)."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.checkpoints import read_config
from regard.checkpoints.renamed import renamed_task
from regard.models import MODELS
from regard.tasks.spec import TASKS

GOLDEN = Path(__file__).parents[1] / "golden"
_specification = importlib.util.spec_from_file_location("make_folders", GOLDEN / "make_folders.py")
assert _specification is not None
assert _specification.loader is not None
golden: ModuleType = importlib.util.module_from_spec(_specification)
sys.modules[golden.__name__] = golden  # dataclasses look their module up
_specification.loader.exec_module(golden)
EXPECTED = json.loads((golden.FOLDERS / "expected.json").read_text())["cases"]


def near(found: Any, wanted: Any) -> bool:
    """Whether two answers are the same texts and keys, and the same numbers but for the order they were added up in."""
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(near(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=golden.TOLERANCE, abs=1e-6)
    return found == wanted


def test_every_family_and_every_task_has_a_folder():
    families = {read_config(golden.FOLDERS / name).model_type for name in EXPECTED}
    said = [json.loads((golden.FOLDERS / name / "regard.json").read_text()) for name in EXPECTED]
    assert list(EXPECTED) == list(golden.CASES)
    assert families >= set(MODELS.packaged)
    assert {renamed_task(each["task"], "name")["name"] for each in said} == set(TASKS.packaged)


@pytest.mark.parametrize("name", golden.CASES)
def test_an_old_folder_opens_and_answers_as_it_did(name):
    found = golden.answers(name, golden.FOLDERS / name)
    assert near(found, EXPECTED[name]["answers"]), golden.differing(found, EXPECTED[name]["answers"])


def test_opening_and_answering_import_no_compiler():
    """PyTorch's compiler and its algebra take a second to import, more than all else together."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import make_folders as golden\n"
        "for name in golden.CASES:\n"
        "    golden.answers(name, golden.FOLDERS / name)\n"
        "    assert not {'torch._dynamo', 'sympy'} & set(sys.modules), name\n"
    )
    subprocess.run([sys.executable, "-c", code, str(GOLDEN)], check=True)


@pytest.mark.parametrize("name", golden.CASES)
def test_training_gives_the_losses_it_gave(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if start := golden.CASES[name].start:
        shutil.copytree(golden.FOLDERS / start, tmp_path / start)
    found = golden.trained(name, tmp_path)
    wanted = EXPECTED[name]["losses"]
    assert len(found) == len(wanted) == 5
    assert found == pytest.approx(wanted, rel=golden.TOLERANCE)
    assert os.listdir(tmp_path / name)
