"""From a folder to something that predicts: which folder, which task, which dtype."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.cli.studio import with_checkpoints
from regard.errors import InputError
from regard.tasks.loading import checkpoints_of, model_folder
from regard.text import Tokenizer


@pytest.fixture
def run(translator, tmp_path) -> Path:
    """A run still in training: a best and a last checkpoint, no model of its own yet."""
    best, last = translator("bahdanau"), translator("transformer")
    best.save(tmp_path / "checkpoints" / "step-00000002")
    last.save(tmp_path / "checkpoints" / "step-00000004")
    (tmp_path / "checkpoints.json").write_text(json.dumps({"last": "step-00000004", "best": "step-00000002"}))
    return tmp_path


def test_a_run_in_training_is_loaded_from_its_best_checkpoint(run):
    assert regard.load(run).model.config.model_type == "bahdanau"
    assert model_folder(run) == run / "checkpoints" / "step-00000002"


def test_before_the_first_evaluation_it_is_the_last(run):
    (run / "checkpoints.json").write_text('{"last": "step-00000004"}')
    assert regard.load(str(run)).model.config.model_type == "transformer"


@pytest.mark.parametrize(
    "content", ["{", "{}", "[]", '"step"', '{"last": true}', '{"last": "../.."}', '{"last": ".."}', '{"last": {}}']
)
def test_a_damaged_pointer_is_named(content, run):
    (run / "checkpoints.json").write_text(content)
    with pytest.raises(InputError, match=r"checkpoints\.json: (is not JSON|holds|last is)"):
        regard.load(run)


def test_a_pointer_to_nothing(run):
    (run / "checkpoints.json").write_text('{"last": "step-00000009"}')
    with pytest.raises(InputError, match="holds no model"):
        regard.load(run)


def test_the_task_that_is_wanted(run):
    assert regard.load(run, task="translation").task.name == "translation"
    with pytest.raises(InputError, match="task is 'fill-mask'; choose from"):
        regard.load(run, task="fill-mask")


def test_an_unknown_dtype_names_the_nearest(run):
    with pytest.raises(InputError, match="did you mean 'bfloat16'"):
        regard.load(run, dtype="bfloat61")


def test_a_tokenizer_of_another_model_is_refused(translator, tmp_path):
    translator("transformer").save(tmp_path / "own")
    regard.load(tmp_path / "own")
    Tokenizer.train(["abcdefgh ijklmnop"], kind="character", size=40).save(tmp_path / "own" / "source")
    with pytest.raises(
        InputError, match=r"source vocabulary is 20 in .* 16 in config\.json; the files are of different models"
    ):
        regard.load(tmp_path / "own")


def test_a_long_message_is_cut_in_its_middle():
    """What was given is quoted, and may be a megabyte."""
    said = str(InputError(f"seed is {'9' * 1_000_000}; give a whole number"))
    assert len(said) == 2000
    assert said.startswith("seed is 999")
    assert said.endswith("999; give a whole number")
    assert str(InputError("short")) == "short"


def test_finding_the_task_of_a_model_imports_no_task():
    code = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from regard.tasks.spec import TASKS, task_for\n"
        "found = [task_for(SimpleNamespace(model_type='bert', **made), 'folder') for made in (\n"
        "    {'head': 'sequence', 'outputs': 3}, {'head': 'sequence', 'outputs': 1}, {'head': 'tokens'}, {'head': 'none'})]\n"
        "homes = {TASKS.packaged._homes[name].partition(':')[0] for name in TASKS}\n"
        "print(found, homes & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("] ")[1].strip() == "set()"
    assert done.stdout.startswith("['classification', 'regression', 'tagging', 'sentence_embedding']")


def test_the_old_name_of_a_task_spec_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"regard\.tasks\.Kind is called regard\.tasks\.TaskSpec"):
        assert regard.tasks.spec.Kind is regard.tasks.TaskSpec


def test_a_checkpoint_of_a_run_is_named_after_an_at(run):
    best, last = run / "checkpoints" / "step-00000002", run / "checkpoints" / "step-00000004"
    shutil.copytree(best, run / "checkpoints" / "mine")
    assert checkpoints_of(run) == {
        "best": best,
        "last": last,
        "mine": run / "checkpoints" / "mine",
        "step-2": best,
        "step-4": last,
    }
    for name, place in (("last", last), ("step-4", last), ("step-00000004", last), ("best", best)):
        assert model_folder(f"{run}@{name}") == place
    assert regard.load(f"{run}@last").model.config.model_type == "transformer"
    with pytest.raises(InputError, match="has no checkpoint 'lst'; did you mean 'last'"):
        regard.load(f"{run}@lst")
    with pytest.raises(InputError, match="no such folder"):
        regard.load(f"{run / 'checkpoints' / 'mine'}@last")


def test_the_studio_lists_the_checkpoints_of_a_run_or_names_them_where_they_are_large(run, monkeypatch, capsys):
    given = {"x": str(run), "y": str(run / "checkpoints" / "step-00000004")}
    assert with_checkpoints(given) == {"x": str(run), "x@last": f"{run}@last", "y": given["y"]}
    assert "x: its checkpoints are loaded too: x@last" in capsys.readouterr().err
    monkeypatch.setattr("regard.cli.studio.MOST_CHECKPOINT_BYTES", 10)
    assert with_checkpoints(given) == given
    assert f"name those to compare: {run}@last" in capsys.readouterr().err
