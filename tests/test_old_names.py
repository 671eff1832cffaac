"""Modules that can still be imported under the names they had."""

import importlib
import subprocess
import sys

import pytest

from regard.data.notes import to_events
from regard.data.running_text import split_sentences


def test_an_old_module_gives_what_the_module_of_today_has_and_warns():
    with pytest.warns(DeprecationWarning, match=r"regard\.data\.sentences is now regard\.data\.running_text"):
        from regard.data.sentences import split_sentences as old  # type: ignore[import-not-found]
    assert old is split_sentences
    with pytest.warns(DeprecationWarning, match=r"regard\.data\.music\.performance"):
        assert importlib.import_module("regard.data.music.performance").to_events is to_events
    from regard.data.music import performance  # type: ignore[attr-defined]

    with pytest.warns(DeprecationWarning, match=r"regard\.data\.music\.performance"):
        assert performance.to_events is to_events


def test_a_name_that_never_was_is_none():
    old = importlib.import_module("regard.data.captions")
    with pytest.raises(AttributeError, match="read_caption"):
        old.read_caption  # noqa: B018
    assert not hasattr(old, "__path__")


def test_nothing_is_imported_until_a_name_is_asked_for():
    said = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import regard.data.captions, sys; print(len([m for m in sys.modules if m == 'torch']))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "0"
