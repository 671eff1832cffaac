"""Modules and names that can still be imported as they were called before."""

import importlib
import subprocess
import sys

import pytest
import torch

import regard.layers
import regard.prompting
from regard.data.notes import to_events
from regard.data.running_text import split_sentences
from regard.errors import InputError
from regard.generation import GenerationSettings, beam_search
from regard.tasks import TaskSpec
from regard.tasks.predictor import Predictor
from regard.tasks.task import Task

DATA = "regard.data"


@pytest.mark.parametrize(
    ("old", "name", "found"),
    [("sentences", "split_sentences", split_sentences), ("music.performance", "to_events", to_events)],
)
def test_an_old_module_gives_what_the_module_of_today_has_and_warns(old, name, found):
    module = importlib.import_module(f"{DATA}.{old}")
    with pytest.warns(DeprecationWarning, match=rf"{DATA}.{old} is now {found.__module__}; import {name} from there"):
        assert getattr(module, name) is found


def test_a_name_that_never_was_is_none():
    old = importlib.import_module(f"{DATA}.captions")
    with pytest.raises(AttributeError, match="read_caption"):
        old.read_caption  # noqa: B018
    assert not hasattr(old, "__path__")


def test_nothing_is_imported_until_a_name_is_asked_for():
    code = f"import sys, {DATA}.captions; assert 'torch' not in sys.modules; from {DATA}.captions import CaptionLine"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert f"DeprecationWarning: {DATA}.captions is now {DATA}.labelled_images" in done.stderr


@pytest.mark.parametrize(
    "old", ["CausalReader", "Reader", "ReaderConfig", "Straight", "VectorReader", "WholeTextReader"]
)
def test_an_old_name_of_a_layer_gives_the_class_of_today_and_warns(old):
    with pytest.warns(DeprecationWarning, match=rf"regard.layers.{old} is called (\w+); use that name") as seen:
        found = getattr(regard.layers, old)
    assert f"is called {found.__name__};" in str(seen[0].message)


def test_a_layer_that_never_was_is_refused():
    with pytest.raises(AttributeError, match=r"module 'regard.layers' has no attribute 'Crooked'"):
        regard.layers.Crooked  # noqa: B018


@pytest.mark.parametrize(
    ("old", "today"), [("ask", "evaluate_prompts"), ("posed", "build_prompt"), ("Posed", "BuiltPrompt")]
)
def test_an_old_name_of_prompting_is_the_name_of_today_and_warns(old, today):
    with pytest.warns(DeprecationWarning, match=rf"regard.prompting.{old} is called {today}; use that name"):
        assert getattr(regard.prompting, old) is getattr(regard.prompting, today)


def test_an_old_keyword_of_beam_search_works_and_warns():
    with (
        pytest.warns(DeprecationWarning, match="enough of beam_search is called early_stopping"),
        pytest.raises(InputError, match=r"early_stopping: 1 .* at least 2"),
    ):
        beam_search(None, None, n_best=2, enough=1)
    with pytest.raises(TypeError, match="enough is the old name of early_stopping, which is given too"):
        beam_search(None, None, early_stopping=1, enough=1)
    with pytest.warns(DeprecationWarning, match="GenerationSettings.enough is called early_stopping"):
        assert GenerationSettings(beam=4, enough=2).early_stopping == 2


@pytest.mark.parametrize(
    ("module", "old", "today"),
    [
        ("regression", "Rater", "Regressor"),
        ("regression", "MultiRater", "MultiOutputRegressor"),
        ("question_answering", "Answerer", "QuestionAnswerer"),
        ("multiple_choice", "Chooser", "MultipleChoice"),
    ],
)
def test_an_old_name_of_a_predictor_is_the_class_of_today_and_warns(module, old, today):
    found = importlib.import_module(f"regard.tasks.{module}")
    with pytest.warns(DeprecationWarning, match=f"regard.tasks.{module}.{old} is called {today}; use that name"):
        assert getattr(found, old) is getattr(found, today)


def test_a_predictor_of_ones_own_that_uses_the_old_names_is_understood():
    with pytest.warns(DeprecationWarning, match=r"Own.judged? is called (validate|metric_names); use that name"):

        class Own(Predictor):
            judged = ("right",)

            def judge(self, data, count):
                return {"right": 1.0}

    assert Own.metric_names == ("right",)
    own = Own(torch.nn.Linear(1, 1), None)
    assert own.validate(None, 1) == {"right": 1.0}
    with pytest.warns(DeprecationWarning, match="Predictor.judge is called validate; use that name"):
        assert own.judge(None, 1) == {"right": 1.0}
    with pytest.raises(AttributeError, match="'Own' object has no attribute 'unheard'"):
        own.unheard  # noqa: B018


def test_a_task_of_ones_own_that_uses_the_old_names_is_understood():
    settings = {"task": Task, "predictor": Predictor, "interface": "encoder", "sections": {}, "prepare": print}
    with pytest.warns(DeprecationWarning, match="TaskSpec.filled_in is called derived_config; use that name"):
        assert TaskSpec(**settings, evaluate=print, filled_in={"outputs": 1}).derived_config == {"outputs": 1}
