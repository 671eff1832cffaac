"""`regard.prepared`, the old name of `regard.quantization`."""

from __future__ import annotations

import importlib
import sys

import pytest

import regard.quantization


def test_the_old_name_warns_and_gives_the_same_things(monkeypatch):
    monkeypatch.delitem(sys.modules, "regard.prepared", raising=False)
    with pytest.warns(DeprecationWarning, match=r"regard\.quantization; use that name"):
        old = importlib.import_module("regard.prepared")
    assert len(old.__all__) == 8
    assert all(getattr(old, name) is getattr(regard.quantization, name) for name in old.__all__)
