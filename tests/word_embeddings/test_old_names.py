"""`regard.vectors`, the old name of `regard.word_embeddings`."""

from __future__ import annotations

import importlib
import sys

import pytest

import regard.word_embeddings
import regard.word_embeddings.store


@pytest.fixture(autouse=True)
def not_yet_imported(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in [name for name in sys.modules if name.split(".")[:2] == ["regard", "vectors"]]:
        monkeypatch.delitem(sys.modules, name)


def test_the_old_name_warns_and_gives_the_same_things():
    with pytest.warns(DeprecationWarning, match=r"regard\.word_embeddings; use that name"):
        old = importlib.import_module("regard.vectors")
    assert old.__all__ == regard.word_embeddings.__all__
    assert all(getattr(old, name) is getattr(regard.word_embeddings, name) for name in old.__all__)


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("store", "store"),
        ("reading", "files"),
        ("formats", "formats"),
        ("formats.folder", "formats.files"),
        ("training.settings", "training.corpus"),
        ("evaluation.extrinsic.words", "evaluation.extrinsic"),
        ("judging", "survey"),
        ("judging.scores", "survey"),
    ],
)
def test_the_modules_are_the_very_same(name, today):
    with pytest.warns(DeprecationWarning, match="word_embeddings"):
        old = importlib.import_module(f"regard.vectors.{name}")
    assert old is importlib.import_module(f"regard.word_embeddings.{today}")
    assert old.__name__ == f"regard.word_embeddings.{today}"


def test_names_come_from_the_old_modules():
    with pytest.warns(DeprecationWarning, match="word_embeddings"):
        from regard.vectors.store import WordVectors  # pyright: ignore[reportMissingImports]
    assert WordVectors is regard.word_embeddings.WordVectors


def test_an_unknown_module_is_not_found():
    with (
        pytest.warns(DeprecationWarning, match="word_embeddings"),
        pytest.raises(ModuleNotFoundError, match=r"regard\.vectors\.nothing"),
    ):
        importlib.import_module("regard.vectors.nothing")
