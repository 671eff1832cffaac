"""Modules that can still be imported under the names they had."""

import importlib
import subprocess
import sys

import pytest

from regard.data.notes import to_events
from regard.data.running_text import split_sentences

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
    assert f"DeprecationWarning: {DATA}.captions is now {DATA}.labelled_pictures" in done.stderr
