"""The registry of families: names, classes, and what is imported when."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from torch import nn

from regard.models import MODELS
from regard.models.families import is_packaged
from regard.tasks import TASKS


@pytest.mark.parametrize("name", MODELS.packaged)
def test_a_family_has_the_name_that_its_config_has(name):
    family = MODELS[name]
    assert family.config.model_type == name
    assert issubclass(family.model, nn.Module)
    assert family.with_head == "" or MODELS[family.with_head].serves("whole_text")


def test_a_task_has_the_name_that_it_is_registered_by():
    assert {name: kind.task.name for name, kind in TASKS.packaged.items()} == {name: name for name in TASKS.packaged}


def test_naming_the_families_imports_none_of_them():
    code = (
        "import json, sys\nfrom regard.models import MODELS\n"
        "assert 'bert' in MODELS and MODELS['bert'].serves('whole_text') and 'nothing' not in MODELS and len(MODELS) > 30\n"
        "before = [name for name in sys.modules if name.startswith('regard.models.')]\nMODELS['bert'].model\n"
        "print(json.dumps([before, 'regard.models.bert' in sys.modules, 'regard.models.gpt' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    before, bert, gpt2 = json.loads(done.stdout)
    assert before == ["regard.models.families"]
    assert bert
    assert not gpt2


def test_a_packaged_model_is_known_by_its_class_and_not_by_its_config_alone():
    config = MODELS["bahdanau"].config(source_vocabulary=9, target_vocabulary=9, embedding_width=4, hidden_width=4)
    model = MODELS["bahdanau"].model(config)
    other = nn.Linear(1, 1)
    assert is_packaged(model)
    assert not is_packaged(other)
    other.config = config
    assert not is_packaged(other)
